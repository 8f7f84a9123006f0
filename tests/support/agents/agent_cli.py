"""Command lines of coding agents: a working directory of their own, no network but the gateway, and
one line of JSON for each event."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.agents.client_packages import CLIENTS
from tests.support.servers.gateway_process import MASTER_KEY

RUN_SECONDS = 300
"""Only a failure takes so long."""
NOWHERE = "http://127.0.0.1:9"
NO_NETWORK = {"HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE, "NO_PROXY": "127.0.0.1"}


def folders(folder: Path) -> tuple[Path, Path]:
    """The home and the working directory below `folder`."""
    home, work = folder / "home", folder / "work"
    home.mkdir(exist_ok=True)
    work.mkdir(exist_ok=True)
    return home, work


def launched(client: Path, url: str, model: str = "tiny") -> tuple[list[str], dict[str, str]]:
    """The beginning of a command that runs a client by `toolgate launch`, and its PATH."""
    command = [sys.executable, "-m", "toolgate_proxy", "launch", client.name]
    path = f"{client.parent}{os.pathsep}{os.environ['PATH']}"
    return [*command, "--url", url, "--model", model, "--"], {"PATH": path}


def run(
    command: Sequence[str], work: Path, environment: Mapping[str, str]
) -> tuple[list[dict[str, Any]], str]:
    """What the command printed: its lines of JSON, and the end of its errors. `environment` is
    added to one without network."""
    done = subprocess.run(
        command,
        cwd=work,
        env={"PATH": os.environ["PATH"], **NO_NETWORK, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return lines, done.stderr[-4000:]


def run_program(
    python: Path, name: str, home: Path, gateway: str, checks: int, **more: str
) -> list[str]:
    """Run a program of tests/clients without network, in `home`, and return the lines that it
    prints. It must succeed, and print the number of its `checks`. `more` is added to its
    environment."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "GATEWAY_URL": gateway,
        "GATEWAY_KEY": MASTER_KEY,
        "GATEWAY_BIAS": "{}",
        **NO_NETWORK,
        **more,
    }
    done = subprocess.run(
        [str(python), str(CLIENTS / name)],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    assert done.stdout.count("checked:") == checks
    return done.stdout.splitlines()
