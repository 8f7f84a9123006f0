"""Child processes of a stack. Each has its own process group and log file."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from . import cleanup_process
from .cleanup_process import GRACE_SECONDS, send
from .failure import cause, ending


class StackFailed(Exception):
    """A part of the stack is not running. The message names the part and the reason."""

    log: Path | None = None
    """The log of the part."""
    shown = False
    """Whether the message was printed."""


class ChildFailed(StackFailed):
    """A child process exited. The message contains the cause from its log."""

    def __init__(self, message: str, log: Path) -> None:
        super().__init__(message)
        self.log = log


class PortInUse(StackFailed):
    """Another server listens on a port that a server needs."""


class CleanupProcess:
    """Handle of the process that cleans up after this one, if this one is killed."""

    def __init__(self, directory: Path) -> None:
        """`directory` is removed in the end."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", cleanup_process.__name__, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def add(self, group: int) -> None:
        self._send(f"add {group}\n")

    def remove(self, group: int) -> None:
        self._send(f"remove {group}\n")

    def close(self) -> None:
        """End the groups that were not removed, and remove the directory."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it was killed; children are then stopped by `stop` only
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()


class Child:
    """A running command. Ctrl-C in the terminal does not reach it: `stop` ends it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        cleanup: CleanupProcess | None = None,
    ) -> None:
        """With `cleanup`, the command also ends if this process is killed."""
        self.name = name
        self.log = log
        self._cleanup = cleanup
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        if cleanup is not None:
            cleanup.add(self.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        """Raise ChildFailed if the command has exited."""
        status = self._process.poll()
        if status is not None:
            reason = cause(self.log.read_text(errors="replace")) or "Its log is empty."
            raise ChildFailed(f"The {self.name} {ending(status)}: {reason}", self.log)

    def stop(self) -> None:
        """End the command and its child processes."""
        send(self.pid, signal.SIGTERM)
        try:
            self._process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        finally:
            send(self.pid, signal.SIGKILL)  # for processes whose group leader has exited
            self._process.wait()
        if self._cleanup is not None:
            self._cleanup.remove(self.pid)


_reserved: list[socket.socket] = []


def free_port() -> int:
    """Return a port that no other process gets while this process runs.

    On Linux a bound socket that does not listen keeps the port. The kernel then assigns the port
    neither to a server that binds to port 0 nor to an outgoing connection. With SO_REUSEADDR, a
    server that binds to this port explicitly still gets it. On other systems the port is only free
    at the time of the call.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    port: int = reserved.getsockname()[1]
    if sys.platform == "linux":
        _reserved.append(reserved)
    else:
        reserved.close()
    return port


def check_port(host: str, port: int, option: str) -> None:
    """Raise PortInUse if a server listens at this address. `option`: that sets the port."""
    if in_use(host, port):
        raise PortInUse(f"Port {port} of {host} is in use. Choose another port with {option}.")


def in_use(host: str, port: int) -> bool:
    """Return whether a server listens at this address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False
