"""Temporary directory of one run, and removal of what killed runs left behind.

A run locks the file `lock` in its directory until it ends. The kernel releases the lock when the
process dies, even by SIGKILL. A directory whose lock is free therefore belongs to a dead run, and
the next start removes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

LOCK = "lock"
NEW, RUN, KEPT = "new", "run", "failed"
"""States of a directory, as part of its name: not yet locked, of a run, kept after a run."""
MAX_LENGTH = 60
"""Maximum length of the path of a temporary directory for vLLM, which creates Unix sockets with
names of 37 characters there. Paths of sockets may have 103 characters (macOS) or 107 (Linux)."""
KEPT_SECONDS = 86_400
"""Time for which the logs of a failed run are kept."""


class RunDirectory:
    """Context manager: the directory is removed on exit."""

    def __init__(self) -> None:
        remove_dead_runs()
        new = Path(tempfile.mkdtemp(prefix=_prefix(NEW)))
        lock = _try_lock(new)
        assert lock is not None
        self._lock = lock
        # Other processes look for the new name only, so they never find a run without its lock.
        self.path = new.rename(_renamed(new, NEW, RUN))

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()

    def keep(self, directory: Path) -> Path:
        """Moves a directory inside this one to a place where it stays for a day."""
        return directory.rename(_renamed(self.path, RUN, KEPT))


def remove_dead_runs() -> None:
    """Removes the directories of runs whose process is dead, and expired logs of failed runs."""
    temporary = Path(tempfile.gettempdir())
    for directory in temporary.glob(f"{_prefix(RUN)}*"):
        with suppress(OSError):
            if (lock := _try_lock(directory)) is not None:
                shutil.rmtree(directory, ignore_errors=True)
                lock.close()
    for state in (NEW, KEPT):
        for directory in temporary.glob(f"{_prefix(state)}*"):
            with suppress(OSError):
                if time.time() - directory.stat().st_mtime > KEPT_SECONDS:
                    shutil.rmtree(directory, ignore_errors=True)


def _prefix(state: str) -> str:
    return f"toolgate-{os.getuid()}-{state}-"


def _renamed(directory: Path, old: str, new: str) -> Path:
    return directory.with_name(directory.name.replace(_prefix(old), _prefix(new)))


def _try_lock(directory: Path) -> BinaryIO | None:
    """Locks the directory of a run. Return None if its process is alive."""
    file = (directory / LOCK).open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file
