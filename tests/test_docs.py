"""Documents that are generated from the code match the code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("script", sorted(path.name for path in ROOT.glob("scripts/*_doc.py")))
def test_generated_document_is_current(script: str) -> None:
    path = ROOT / "scripts" / script
    run = subprocess.run([sys.executable, path, "--check"], check=False)
    assert run.returncode == 0, "run `make docs`"


def test_make_docs_runs_every_generator() -> None:
    makefile = (ROOT / "Makefile").read_text()
    missing = [
        path.name
        for path in ROOT.glob("scripts/*_doc.py")
        if f"python scripts/{path.name}\n" not in makefile
    ]
    assert not missing
