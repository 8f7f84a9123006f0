"""The cause of a failure, from the log of a process that exited.

vLLM's last lines are often not the cause: the API server reports that the engine failed, and other
processes report that their connections broke.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Sequence

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
    for at in range(len(lines) - 1, -1, -1):
        line = lines[at]
        found = EXCEPTION.fullmatch(line) or USAGE.fullmatch(line)
        if found and not CONSEQUENCES.search(line):
            return _cut(_validation(lines, at) if VALIDATION.search(line) else line)
    meaningful = [line for line in lines if line.strip() and not NOISE.search(line)]
    return _cut(meaningful[-1].strip()) if meaningful else ""


def ending(status: int) -> str:
    """Return how a process ended: `exited with status 1`, or `was killed by SIGKILL`."""
    if status >= 0:
        return f"exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    memory = ", as when the machine is out of memory" if -status == signal.SIGKILL else ""
    return f"was killed by {name}{memory}"


def _validation(lines: Sequence[str], at: int) -> str:
    """Return the first reason of pydantic's error, which is on the lines after its name."""
    for line in lines[at + 1 :]:
        reason = line.strip().removeprefix("Value error, ").partition(" [type=")[0]
        if line.startswith("  ") and " " in reason:
            return reason
    return lines[at]


def _cut(text: str) -> str:
    return text if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]} …"
