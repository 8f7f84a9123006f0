"""The models the tests run: made here, once, by our own script."""

import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


def tiny_lora(directory: Path) -> Path:
    """A random adapter of the tiny model."""
    _run("random_lora", tiny_model(), directory.absolute())
    return directory


@cache
def tiny_model() -> Path:
    """A random model of ~1 MB behind an 8k byte-level vocabulary with Qwen3's special tokens."""
    directory = ROOT / ".cache" / "models" / "tiny"
    _run("tiny_random", directory)
    return directory


@cache
def vision_model() -> Path:
    """A random model that accepts images, with the vocabulary of the tiny model."""
    directory = ROOT / ".cache" / "models" / "tiny-vision"
    _run("tiny_vision", directory)
    return directory


def _run(script: str, *arguments: Path) -> None:
    command: list[str | Path] = [sys.executable, "-m", f"{__name__}.{script}", *arguments]
    subprocess.run(command, cwd=ROOT, check=True)
