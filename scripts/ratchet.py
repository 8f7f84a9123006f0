"""Check that the code does not grow beyond the figures in `ratchet.json` (`make check`).

    python scripts/ratchet.py           # exits with 1 if a figure is exceeded
    python scripts/ratchet.py --lower   # writes the present figures where they are lower

Counts, by kind:

- lines, data and files: lines of Python, lines of data and pages, and Python files of each package
- trunk: lines of Python of core, backend and gateway without features and operations
- private: rows of both lists of private names
- imports: modules of ours that a file imports, if more than MAX_IMPORTS
- fields: attributes of a class, if more than MAX_FIELDS

Figures are only ever lowered: `--lower` never writes a higher one.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FIGURES = Path(__file__).with_name("ratchet.json")
PACKAGES = {
    "core": "core/toolgate_core",
    "backend": "backend/toolgate_backend",
    "proxy": "proxy/toolgate_proxy",
    "verify": "verify/toolgate_verify",
    "tests": "tests",
}
OURS = ("toolgate_core", "toolgate_backend", "toolgate_proxy", "toolgate_verify")
DATA = {".css", ".html", ".js", ".json", ".lua", ".mjs", ".sh", ".toml", ".yaml"}
TRUNK = ("core", "backend", "proxy")
BESIDE_THE_TRUNK = (
    "proxy/toolgate_proxy/features/**/*.py",
    "proxy/toolgate_proxy/ops/**/*.py",
    # Files of features that are in other folders: custom tools.
    "backend/toolgate_backend/grammars/engines/custom*.py",
    "core/toolgate_core/custom_tools.py",
    "proxy/toolgate_proxy/validation/grammar_reader.py",
)
PRIVATE = {
    "LiteLLM": "proxy/toolgate_proxy/litellm_host/private_names.py",
    "vLLM": "backend/toolgate_backend/adapters/private_names.py",
}
MAX_IMPORTS = 14
MAX_FIELDS = 20

Figures = dict[str, dict[str, int]]


def measured(root: Path) -> Figures:
    """Return the figures of a checkout by kind and by package, host, file or class."""
    kinds = ("lines", "data", "files", "trunk", "private", "imports", "fields")
    found: Figures = {kind: {} for kind in kinds}
    for package, folder in PACKAGES.items():
        files = sorted((root / folder).rglob("*.py"))
        found["files"][package] = len(files)
        found["lines"][package] = _lines(files)
        found["data"][package] = _lines(
            file for file in (root / folder).rglob("*") if file.suffix in DATA
        )
        for file in () if package == "tests" else files:
            place = file.relative_to(root).as_posix()
            tree = ast.parse(file.read_bytes())
            if (imports := len(_imported(tree, file.relative_to(root / package)))) > MAX_IMPORTS:
                found["imports"][place] = imports
            for name, fields in _classes(tree):
                if fields > MAX_FIELDS:
                    found["fields"][f"{place}:{name}"] = fields
    beside = {file for pattern in BESIDE_THE_TRUNK for file in root.glob(pattern)}
    found["trunk"]["all"] = sum(found["lines"][package] for package in TRUNK) - _lines(beside)
    for host, place in PRIVATE.items():
        found["private"][host] = _private_names(root / place)
    return found


def _lines(files: Iterable[Path]) -> int:
    return sum(file.read_bytes().count(b"\n") for file in files)


def _private_names(file: Path) -> int:
    """Return the number of rows: arguments of `_used` after the first one, calls of `PrivateName`,
    and lines of a table that are indented once."""
    rows = 0
    for statement in ast.parse(file.read_bytes()).body:
        for node in ast.walk(statement) if isinstance(statement, ast.Assign) else ():
            match node:
                case ast.Call(func=ast.Name(id="_used"), args=[_, *names]):
                    rows += len(names)
                case ast.Call(func=ast.Name(id="PrivateName")):
                    rows += 1
                case ast.Constant(value=str(text)):
                    rows += len(re.findall(r"^ {4}\S", text, re.MULTILINE))
    return rows


def _imported(tree: ast.Module, file: Path) -> set[str]:
    """Return the modules of ours that a file imports, for types too. `file`: its path, which begins
    with the folder of the package."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names if each.name.split(".")[0] in OURS}
        elif isinstance(node, ast.ImportFrom):
            parts = list(file.parts[: -node.level]) if node.level else []
            module = ".".join([*parts, *([node.module] if node.module else [])])
            if module.split(".")[0] in OURS:
                # `from . import name` imports a module for each name.
                names = [each.name for each in node.names] if node.module is None else []
                found |= {f"{module}.{name}" for name in names} or {module}
    return found


def _classes(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the classes with their numbers of attributes: annotated names, `__slots__`, and
    attributes of `self` that any method sets."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        fields = set[str]()
        for each in node.body:
            match each:
                case ast.AnnAssign(target=ast.Name(id=name)):
                    fields.add(name)
                case ast.Assign(targets=[ast.Name(id="__slots__")], value=value):
                    slots = ast.literal_eval(value)
                    fields.update([slots] if isinstance(slots, str) else slots)
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    fields.update(_set_by(each))
        yield node.name, len(fields)


def _set_by(method: ast.AST) -> Iterator[str]:
    for node in ast.walk(method):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name


def exceeded(now: Figures, allowed: Figures) -> Iterator[str]:
    """Yield what exceeds the allowed figures."""
    bounds = {"imports": MAX_IMPORTS, "fields": MAX_FIELDS}
    for kind, figures in now.items():
        for name, figure in figures.items():
            most = allowed.get(kind, {}).get(name, bounds.get(kind, 0))
            if figure > most:
                yield f"{name}: {figure} {kind}, at most {most} are allowed"


def lowered(now: Figures, allowed: Figures) -> Figures:
    """Return the allowed figures, each as low as the present one."""
    return {
        kind: {
            name: min(figures[name], most)
            for name, most in allowed.get(kind, {}).items()
            if name in figures
        }
        for kind, figures in now.items()
    }


def main(arguments: list[str]) -> int:
    now, allowed = measured(ROOT), json.loads(FIGURES.read_text())
    if problems := [*exceeded(now, allowed)]:
        print("\n".join(problems))
        print("Remove as much elsewhere, or divide the file or class; do not raise a figure.")
        return 1
    if "--lower" in arguments:
        FIGURES.write_text(json.dumps(lowered(now, allowed), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
