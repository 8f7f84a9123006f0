"""A stranger can follow a request: the files of the spine import few modules of ours, one streamed
request enters few files, and its walk seldom goes back and forth.

The numbers are ceilings: lower them when they are reached.
"""

import ast
import re
import subprocess
import sys
from importlib.util import resolve_name
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {"toolgate_core": ROOT / "core", "toolgate_proxy": ROOT / "proxy"}
IMPORTED = 14
FILES = {"gateway": 78, "core": 16}
RETURNS = {"pipeline": 25, "request": 12, "engine": 8}


def is_module(name):
    folder = PACKAGES.get(name.partition(".")[0])
    path = None if folder is None else folder.joinpath(*name.split("."))
    return path is not None and (path.with_suffix(".py").exists() or path.is_dir())


def imported(module):
    """Return the modules of ours that a module imports."""
    package, _, name = module.rpartition(".")
    path = PACKAGES[module.partition(".")[0]].joinpath(*package.split("."), f"{name}.py")
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            names = [f"{base}.{each.name}" for each in node.names]
            found |= {each if is_module(each) else base for each in names}
    return {each for each in found if is_module(each)}


@pytest.mark.parametrize(
    "module", ["toolgate_proxy.app", "toolgate_proxy.pipeline", "toolgate_proxy.chat.engine"]
)
def test_a_file_of_the_spine_imports_few_modules(module):
    assert 8 < len(imported(module)) <= IMPORTED


@pytest.mark.slow
def test_a_streamed_request_enters_few_files():
    command = [sys.executable, "scripts/trace_request.py"]
    traced = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    files = {room: int(number) for number, room in re.findall(r"(\d+) files of the (\w+)", traced)}
    returns = {
        name: int(number) for number, name in re.findall(r"(\d+) returns to .*/(\w+)\.py", traced)
    }
    for most, found in ((FILES, files), (RETURNS, returns)):
        assert found.keys() == most.keys()
        assert {name for name in most if found[name] > most[name]} == set(), traced
