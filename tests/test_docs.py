"""Documents that are made from the code are as the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_table_of_parameters_is_up_to_date() -> None:
    script = ROOT / "scripts" / "parameters_doc.py"
    run = subprocess.run([sys.executable, script, "--check"], check=False)
    assert run.returncode == 0, "run `make docs`"
