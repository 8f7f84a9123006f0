"""Runs `toolgate verify` against a server, and keeps its reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

UNVERIFIED = 2
"""Exit status if the endpoint could not be verified."""


class NotVerified(RuntimeError):
    """There is no report. The message is that of `toolgate verify`."""


def verify(url: str, model: str, key: str, suite: str, reports: Path) -> dict[str, Any]:
    """The JSON report, also written to `reports`.json and `reports`.html. Raises NotVerified."""
    command = [
        *(str(Path(sys.executable).with_name("toolgate")), "verify", url, "--model", model),
        *("--api", "all", "--suite", suite, "--timeout", "120"),
        *("--json", f"{reports}.json", "--html", f"{reports}.html"),
    ]
    environment = {**os.environ, "TOOLGATE_VERIFY_KEY": key}
    # An empty variable counts as unset, so the key of another server would be sent.
    environment.pop("TOOLGATE_API_KEY", None)
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode == UNVERIFIED:
        raise NotVerified(done.stderr.strip()[-500:] or done.stdout.strip()[-500:])
    print(done.stdout[-1500:], flush=True)
    return read(reports)


def read(reports: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(reports.with_name(f"{reports.name}.json").read_text())
    return report
