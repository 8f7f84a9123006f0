"""The command `toolgate verify`, and its reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

COMMAND = (str(Path(sys.executable).with_name("toolgate")), "verify")
UNVERIFIED = 2
"""Exit status if the endpoint could not be verified."""


class NotVerified(RuntimeError):
    """There is no report. The message is that of `toolgate verify`."""


def verify(url: str, model: str, key: str, suite: str, report: Path) -> dict[str, Any]:
    """Verify all APIs of a server, and return the report, which is also written. Raises
    NotVerified."""
    command = [
        *(*COMMAND, url, "--model", model),
        *("--api", "all", "--suite", suite, "--timeout", "120", "--json", str(report)),
    ]
    environment = {**os.environ, "TOOLGATE_VERIFY_KEY": key}
    # An empty variable counts as unset, so the key of another server would be sent.
    environment.pop("TOOLGATE_API_KEY", None)
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode == UNVERIFIED:
        raise NotVerified(done.stderr.strip()[-500:] or done.stdout.strip()[-500:])
    print(done.stdout[-1500:], flush=True)
    return read(report)


def read(report: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(report.read_text())
    return found


def compared(reports: Mapping[str, Path]) -> str:
    """The page that compares reports by the names of their servers."""
    options = [part for name, path in reports.items() for part in ("--compare", f"{name}={path}")]
    return subprocess.run([*COMMAND, *options], check=True, capture_output=True, text=True).stdout
