"""Child processes of a stack: each in a process group of its own, each with a log file."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

GRACE_SECONDS = 20.0
"""What a child gets to end by itself: vLLM waits for its workers."""

TAIL_LINES = 30


class StackFailed(Exception):
    """A part of the stack does not run. The message says which, and why."""


class ChildFailed(StackFailed):
    """A child ended by itself. The message holds the end of its log."""


class PortInUse(StackFailed):
    """Another server listens where one of ours was to."""


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


_reserved: list[socket.socket] = []


def free_port() -> int:
    """A port that nobody else is given while this process runs.

    It stays bound here without listening, so the kernel picks it for nobody, neither for a server
    that asks for any port nor for a connection's own end; on Linux SO_REUSEADDR lets the server
    that is told of it bind it all the same. Elsewhere it is merely free now.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    port: int = held.getsockname()[1]
    if sys.platform == "linux":
        _reserved.append(held)
    else:
        held.close()
    return port


def in_use(host: str, port: int) -> bool:
    """Somebody listens there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False
