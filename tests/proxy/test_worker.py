"""The memory of large bodies goes back to the system."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

FREED = """
import psutil
from toolgate_proxy import worker

if {set_up}:
    worker.return_freed()
del (first := [b"x" * 20_000_000])[:]
large = [b"x" * 20_000_000 for _ in range(5)]
behind = b"x" * 100_000
before = psutil.Process().memory_info().rss
large.clear()
print(before - psutil.Process().memory_info().rss)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_large_blocks_are_returned_though_small_ones_lie_behind_them() -> None:
    freed = {}
    for set_up in (True, False):
        command = [sys.executable, "-c", FREED.format(set_up=set_up)]
        freed[set_up] = int(subprocess.run(command, check=True, capture_output=True).stdout)
    assert freed[True] > 95_000_000
    assert freed[False] < 50_000_000, "Without it, glibc returns them as well: remove return_freed."
