"""Documents that are made from the code are as the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("script", ["parameters_doc.py", "settings_doc.py"])
def test_a_document_made_from_the_code_is_up_to_date(script: str) -> None:
    path = ROOT / "scripts" / script
    run = subprocess.run([sys.executable, path, "--check"], check=False)
    assert run.returncode == 0, "run `make docs`"
