"""Child processes of a stack. Each has its own process group and log file.

The cause of a failure is read from the log. vLLM's last lines are often not the cause: the API
server reports that the engine failed, and other processes that their connections broke.
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from .. import CommandFailed

GRACE_SECONDS = 20.0
"""Time between SIGTERM and SIGKILL, as in clean_up.sh. vLLM waits for its workers when it ends."""
PREFIX = re.compile(
    r"^(?:\([A-Za-z]\w*(?: pid=\d+)?\) )?"  # the process
    r"(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) [\d-]+ [\d:.]+ \[[^\]]*\] ?)?"
    r'(?:time="[^"]*" level="\w+" logger="[^"]*" message=)?'  # the gateway's
)
TRACEBACK = re.compile(r' traceback=("(?:[^"\\]|\\.)*")')
"""The field of the gateway's log that has a traceback."""
EXCEPTION = re.compile(
    r"(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Exit|Unavailable|NotFound)\b(?:: .*)?"
)
USAGE = re.compile(r"[\w.-]+: error: .+|error: .+")
"""Of argparse."""
CONSEQUENCES = re.compile(
    r"Engine core initialization failed|root cause above|EngineDeadError|^ConnectionResetError|"
    r"^BrokenPipeError|^EOFError|^KeyboardInterrupt|^asyncio\.|CancelledError|^SystemExit|"
    r"sys\.meta_path is None"  # while the interpreter shuts down
)
PORT_IN_USE = re.compile(r"bind on address \('(?P<host>[^']*)', (?P<port>\d+)\b.*already in use")
"""Of asyncio. A port can be taken between the check of it and the start of the server."""
VALIDATION = re.compile(r"\d+ validation errors? for ")
NOISE = re.compile(r"^ - leaked |^nanobind: |^See https?://|^\s*warnings\.warn|resource_tracker")
MAX_LENGTH = 600
"""Characters."""


def cause(log: str) -> str:
    """Return the last meaningful line: of the last exception that is not a consequence of another
    one, or of an invalid option, or of any text. Empty for an empty log."""
    if taken := PORT_IN_USE.search(log):
        return f"Port {taken['port']} of {taken['host']} is in use. Choose another port."
    log = TRACEBACK.sub(lambda found: "\n" + json.loads(found[1]), log)
    lines = [PREFIX.sub("", line) for line in log.splitlines()]
    meaningful = [line for line in lines if line.strip() and not NOISE.search(line)]
    text = meaningful[-1].strip() if meaningful else ""
    for at, line in enumerate(lines):
        is_error = EXCEPTION.fullmatch(line) or USAGE.fullmatch(line)
        if is_error and not CONSEQUENCES.search(line):
            text = _validation(lines, at) if VALIDATION.search(line) else line
    return text if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]} …"


def ending(status: int) -> str:
    """Return how a process ended: `exited with status 1`, or `was killed by SIGKILL`."""
    if status >= 0:
        return f"exited with status {status}"
    name = next((each.name for each in signal.Signals if each == -status), f"signal {-status}")
    memory = ", as when the machine is out of memory" if -status == signal.SIGKILL else ""
    return f"was killed by {name}{memory}"


def _validation(lines: Sequence[str], at: int) -> str:
    """Return the first reason of pydantic's error, which is on the lines after its name."""
    for line in lines[at + 1 :]:
        reason = line.strip().removeprefix("Value error, ").partition(" [type=")[0]
        if line.startswith("  ") and " " in reason:
            return reason
    return lines[at]


class ChildFailed(CommandFailed):
    """A child process exited. The message contains the cause from its log."""

    def __init__(self, message: str, log: Path) -> None:
        super().__init__(message)
        self.log = log


class CleanupProcess:
    """Handle of the process that cleans up after this one, also if this one is killed."""

    def __init__(self, directory: Path) -> None:
        """`directory` is removed in the end."""
        self._groups = directory / "groups"
        self._groups.mkdir()
        self._process = subprocess.Popen(
            ["/bin/sh", str(Path(__file__).with_name("clean_up.sh")), str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def file(self, group: int) -> Path:
        """Return the file that exists while a process group runs."""
        return self._groups / str(group)

    def close(self) -> None:
        """End the groups that still run, and remove the directory."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


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
        self.name, self.log, self._cleanup = name, log, cleanup
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
            cleanup.file(self.pid).touch()

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        """Raise ChildFailed if the command has exited."""
        if (status := self._process.poll()) is not None:
            reason = cause(self.log.read_text(errors="replace")) or "Its log is empty."
            raise ChildFailed(f"The {self.name} {ending(status)}: {reason}", self.log)

    def stop(self) -> None:
        """End the command and its child processes."""
        self._send(signal.SIGTERM)
        try:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_SECONDS)
        finally:
            self._send(signal.SIGKILL)  # for processes whose group leader has exited
            self._process.wait()
        if self._cleanup is not None:
            self._cleanup.file(self.pid).unlink(missing_ok=True)

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


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
    """Raise CommandFailed if a server listens at this address. `option`: that sets the port."""
    if in_use(host, port):
        raise CommandFailed(f"Port {port} of {host} is in use. Choose another port with {option}.")


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
