"""Check that the code does not grow beyond the figures in `ratchet.json` (`make check`).

    python scripts/ratchet.py           # exits with 1 if a figure is exceeded
    python scripts/ratchet.py --lower   # writes the present figures where they are lower

Counts lines and files of each package, the modules of ours that a file imports, and the fields of a
class. A file with more than MAX_IMPORTS imports and a class with more than MAX_FIELDS fields are
listed with their numbers, and no other one may exceed these bounds. Figures are only ever lowered:
`--lower` never writes a higher one.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
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
MAX_IMPORTS = 14
MAX_FIELDS = 20

Figures = dict[str, dict[str, int]]


def measured(root: Path) -> Figures:
    """Return the figures of a checkout by kind and by package, file or class."""
    found: Figures = {"lines": {}, "files": {}, "imports": {}, "fields": {}}
    for package, folder in PACKAGES.items():
        files = sorted((root / folder).rglob("*.py"))
        found["files"][package] = len(files)
        found["lines"][package] = sum(file.read_bytes().count(b"\n") for file in files)
        for file in () if package == "tests" else files:
            place = file.relative_to(root).as_posix()
            tree = ast.parse(file.read_bytes())
            if (imports := len(_imported(tree, file.relative_to(root / package)))) > MAX_IMPORTS:
                found["imports"][place] = imports
            for name, fields in _classes(tree):
                if fields > MAX_FIELDS:
                    found["fields"][f"{place}:{name}"] = fields
    return found


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
    """Yield the classes with their numbers of fields: annotated names, and attributes of `self`
    that `__init__` sets."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        fields = {
            each.target.id
            for each in node.body
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        }
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                fields |= {
                    inner.attr
                    for inner in ast.walk(method)
                    if isinstance(inner, ast.Attribute)
                    and isinstance(inner.ctx, ast.Store)
                    and isinstance(inner.value, ast.Name)
                    and inner.value.id == "self"
                }
        yield node.name, len(fields)


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
