"""The help of a benchmark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_help_imports_no_litellm() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "bench", "gateway-overhead", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "--rounds" in done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "argparse" in imported
    assert {name for name in imported if name.partition(".")[0] == "litellm"} == set()
