"""Generated documents match the code, and files that documents name exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import BENCHMARKS
from tests.long.__main__ import CHECKS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


@pytest.mark.parametrize("script", sorted(path.name for path in ROOT.glob("scripts/*_doc.py")))
def test_generated_document_is_current(script):
    path = ROOT / "scripts" / script
    run = subprocess.run([sys.executable, path, "--check"], check=False)
    assert run.returncode == 0, "run `make docs`"


def test_make_docs_runs_every_generator():
    makefile = (ROOT / "Makefile").read_text()
    missing = [
        path.name
        for path in ROOT.glob("scripts/*_doc.py")
        if f"python scripts/{path.name}\n" not in makefile
    ]
    assert not missing


PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md"])
PATHS = re.compile(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|lua|sh|yaml))`")
LINKS = re.compile(r"\]\(([^)#:\s]+)(#[^)\s]*)?\)")
PROGRAMS = {"bench": BENCHMARKS, "tests.long": CHECKS}
COMMANDS = re.compile(r"python -m (bench|tests\.long) ([a-z][a-z-]*)")
PACKAGES = [ROOT / name / f"toolgate_{name}" for name in ("core", "proxy", "backend", "verify")]
PARENTS = [ROOT, ROOT / "tests", *PACKAGES, *(package.parent for package in PACKAGES)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_pages_that_the_documentation_names_exist(page):
    text = page.read_text()
    named = {path for path in PATHS.findall(text) if "/" in path}
    assert not [path for path in named if not any((each / path).exists() for each in PARENTS)]
    linked = {path for path, _ in LINKS.findall(text)}
    assert not [path for path in linked if not (page.parent / path).exists()]


@pytest.mark.parametrize(
    "page",
    [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "deploy" / "README.md"],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_programs_that_the_documentation_names_exist(page):
    named = COMMANDS.findall(page.read_text())
    assert not [name for package, name in named if name not in PROGRAMS[package]]
