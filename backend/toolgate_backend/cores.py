"""The processor's cores."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Number of cores that this process may use. macOS reports the machine's cores only."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
