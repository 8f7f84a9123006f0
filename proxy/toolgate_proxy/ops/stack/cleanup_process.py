"""Process that ends a stack's children and removes its directory when the stack's process is gone.

`python -m toolgate_proxy.ops.stack.cleanup_process DIRECTORY` reads its standard input, a pipe from
the stack's process, with one command a line: `add <process group>` or `remove <process group>`.
When the pipe closes, because the other process ended or was killed, the remaining groups get
SIGTERM, then SIGKILL. It uses only the standard library, so that it starts fast and stays small.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Collection

GRACE_SECONDS = 20.0
"""Time between SIGTERM and SIGKILL. vLLM waits for its workers when it ends."""
POLL_SECONDS = 0.1


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        command, _, group = line.strip().partition(" ")
        if command == "add":
            groups.add(int(group))
        else:
            groups.discard(int(group))
    end(groups)
    shutil.rmtree(sys.argv[1], ignore_errors=True)


def end(groups: Collection[int]) -> None:
    """End process groups whose leaders are not children of this process."""
    deadline = time.monotonic() + GRACE_SECONDS
    left = [group for group in groups if send(group, signal.SIGTERM)]
    while left and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        left = [group for group in left if send(group, 0)]
    for group in left:
        send(group, signal.SIGKILL)


def send(group: int, number: int) -> bool:
    """Return False if the group has no processes."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


if __name__ == "__main__":
    main()
