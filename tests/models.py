"""The models the tests run: made here, once, by our own script."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


def tiny_lora(directory: Path) -> Path:
    """A random adapter of the tiny model."""
    script = ROOT / "models" / "tiny_lora.py"
    subprocess.run([sys.executable, script, tiny_model(), directory], check=True)
    return directory


@cache
def tiny_model() -> Path:
    """A random model of ~1 MB behind an 8k byte-level vocabulary with Qwen3's special tokens."""
    directory = ROOT / ".cache" / "models" / "tiny"
    subprocess.run([sys.executable, ROOT / "models" / "tiny_random.py", directory], check=True)
    return directory
