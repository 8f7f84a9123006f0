"""Child processes of a stack: each in a process group of its own, each with a log file."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

GRACE_SECONDS = 20.0
"""What a child gets to end by itself: vLLM waits for its workers."""

TAIL_LINES = 30


class ChildFailed(Exception):
    """A child ended by itself. The message holds the end of its log."""


class Child:
    """A running command. Ctrl-C in the terminal reaches only us: we end the children, in order."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> None:
        self.name = name
        self.log = log
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        """Raises ChildFailed when it runs no more."""
        status = self._process.poll()
        if status is not None:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:])
            raise ChildFailed(f"{self.name} ended with status {status}; its log ends:\n{tail}")

    def stop(self) -> None:
        """Ends it and everything it started."""
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._signal(signal.SIGKILL)  # what is left of the group: workers of a leader that died
            self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
