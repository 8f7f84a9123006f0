"""Real processes: a child ends when its parent is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PARENT = """
import multiprocessing, time

def child(start):
    from toolgate_backend.adapters.lifetimes import end_with_parent
    end_with_parent()
    end_with_parent()
    print(multiprocessing.current_process().pid, flush=True)
    time.sleep(600)

if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    context.Process(target=child, args=(0,)).start()
    time.sleep(600)
"""


def test_a_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    for method in ("spawn", "fork"):
        script = tmp_path / f"{method}.py"
        script.write_text(PARENT.format(method=method))
        parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert _lives(child)
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
        ends = time.monotonic() + 20
        while _lives(child):
            assert time.monotonic() < ends, f"a child by {method} outlives its parent"
            time.sleep(0.05)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
