"""Memory of large bodies goes back to the system when they are freed."""

from __future__ import annotations

import ctypes
from contextlib import suppress

M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -3, -1
"""Parameters of glibc's `mallopt`."""
SEPARATE = 1_000_000
"""Size in bytes from which a block is mapped by itself. glibc raises this limit to the size of each
such block that is freed: bodies would then lie among small objects, which keep their memory."""
TOP = 16_000_000
"""Free memory at the end of the heap that is kept."""


def return_freed() -> None:
    """Does nothing with other C libraries than glibc."""
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, SEPARATE)
        mallopt(M_TRIM_THRESHOLD, TOP)
