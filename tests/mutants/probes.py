"""Which tests run the line of which mutant, and which blocks of the product no test runs.

Calls of two functions are put into the product for a run.
A hit in the process of the test is exact. One in a process that tests started, such as a gateway,
counts for every test that ran at that time.
"""

import ast
import json
from collections import Counter, defaultdict
from contextlib import contextmanager
from pathlib import Path

from .mutant import PACKAGES, ROOT, functions

MODULE = ROOT / "core" / "toolgate_core" / "mutant_probes.py"
"""Exists during a run, in the package that all others import."""
TEXT = """
import os, time

FOLDER = {folder!r}
hits = None
_last, _seen, _files = {{}}, set(), {{}}


def hit(number):
    if hits is not None:
        hits.add(number)
        return
    now = time.monotonic()
    if now - _last.get(number, 0) > 0.005:
        _last[number] = now
        _write("hits", f"{{number}} {{now}}")


def block(number):
    if number not in _seen:
        _seen.add(number)
        _write("blocks", str(number))


def _write(kind, row):
    if kind not in _files:
        path = f"{{FOLDER}}/{{kind}}-{{os.getpid()}}"
        _files[kind] = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(_files[kind], (row + chr(10)).encode())


def _forked():
    global hits
    hits = None
    _last.clear()
    _files.clear()


os.register_at_fork(after_in_child=_forked)
"""
CALL = "__import__('toolgate_core.mutant_probes').mutant_probes.{kind}({number})"


@contextmanager
def probed(mutants, folder):
    """Put the probes into the product, and take them out again. The names of its blocks."""
    places = defaultdict[Path, list[tuple[int, int]]](list)
    for number, mutant in enumerate(mutants):
        places[mutant.path].append((mutant.line(), number))
    files = [path for each in PACKAGES for path in sorted((ROOT / each).rglob("*.py"))]
    originals, blocks = {path: path.read_text() for path in files}, list[str]()
    try:
        MODULE.write_text(TEXT.format(folder=str(folder)))
        for path, text in originals.items():
            path.write_text(_with_probes(path, text, places[path], blocks))
        yield blocks
    finally:
        for path, text in originals.items():
            path.write_text(text)
        MODULE.unlink(missing_ok=True)


def _with_probes(path, text, places, blocks):
    module = ast.parse(text)
    found = [(_statement(module, line), _call("hit", number)) for line, number in places]
    inner = []
    for name, function in functions(module).items():
        seen = Counter[str]()
        for node in ast.walk(function):
            for block in _blocks(node):
                first = ast.unparse(block[0]).partition("\n")[0]
                seen[first] += 1
                inner.append((block, f"{path.relative_to(ROOT)}:{name}:{first}:{seen[first]}"))
    for (block, statement), call in found:
        block.insert(block.index(statement), call)
    for block, name in inner:
        is_text = isinstance(block[0], ast.Expr) and isinstance(block[0].value, ast.Constant)
        block.insert(1 if is_text else 0, _call("block", len(blocks)))
        blocks.append(name)
    return ast.unparse(ast.fix_missing_locations(module))


def _call(kind, number):
    return ast.parse(CALL.format(kind=kind, number=number)).body[0]


def _blocks(node):
    fields = [value for _, value in ast.iter_fields(node) if isinstance(value, list) and value]
    return [value for value in fields if isinstance(value[0], ast.stmt)]


def _statement(module, line):
    """The innermost statement that has the line, and the block in which it is."""
    found = None
    for node in ast.walk(module):
        for block in _blocks(node):
            for each in block:
                if each.lineno <= line <= (each.end_lineno or 0):
                    inner = found is None or each.lineno >= found[1].lineno
                    found = (block, each) if inner else found
    assert found is not None
    return found


def read_blocks(folder):
    """The numbers of the blocks that ran."""
    files = folder.glob("blocks-*")
    return {int(row) for file in files for row in file.read_text().splitlines()}


def read_hits(folder):
    """The tests of each mutant that were seen to run its line, with their seconds. Those in whose
    own process it ran are first."""
    runs = [
        json.loads(row) for file in folder.glob("tests-*") for row in file.read_text().splitlines()
    ]
    exact, near = defaultdict[int, dict[str, float]](dict), defaultdict[int, dict[str, float]](dict)
    for name, began, ended, numbers in runs:
        for number in numbers:
            exact[number][name] = ended - began
    by_time = sorted((began, ended, name) for name, began, ended, _ in runs)
    for file in folder.glob("hits-*"):
        for row in file.read_text().splitlines():
            number, moment = row.split()
            at = float(moment)
            for began, ended, name in by_time:
                if began > at:
                    break
                if at <= ended:
                    near[int(number)].setdefault(name, ended - began)
    return {each: exact[each] | near[each] for each in {*exact, *near}}
