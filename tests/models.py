"""The models the tests run: made here, once, by our own script."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


@cache
def tiny_model() -> Path:
    """A random model of ~1 MB behind an 8k byte-level vocabulary with Qwen3's special tokens."""
    directory = ROOT / ".cache" / "models" / "tiny"
    subprocess.run([sys.executable, ROOT / "models" / "tiny_random.py", directory], check=True)
    return directory
