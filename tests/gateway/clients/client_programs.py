"""Programs of client libraries: those that may run at once do so, from the first test on that needs
one of them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

import pytest

from tests.gateway.servers import Gateway
from tests.support.agents.client_packages import (
    CLIENTS,
    anthropic_python,
    client_python,
    node_folder,
)

RUN_SECONDS = 300
WORKERS = 4
Commands = Mapping[str, tuple[str, ...]]
"""By name: the program in tests/clients and its arguments."""


class Programs:
    """`at_once`: the programs that may run at once. The others compare seeded answers, and what
    else is in the engine's batch can change a sampled token."""

    def __init__(self, pool: ThreadPoolExecutor, at_once: Commands, alone: Commands) -> None:
        self._pool = pool
        self._at_once = at_once
        self._alone = alone
        self._started: dict[Gateway, dict[str, Future[None]]] = {}

    def check(self, name: str, gateway: Gateway, bias: dict[str, float], wanted: set[str]) -> None:
        """Fails if the program does. `wanted`: the names of all tests that run."""
        started = self._started.setdefault(gateway, {})
        if name in self._alone:
            wait(started.values())
            _run(self._alone[name], gateway, bias)
            return
        for each, command in self._at_once.items():
            if each in wanted and each not in started:
                started[each] = self._pool.submit(_run, command, gateway, bias)
        started[name].result()


@contextmanager
def programs(at_once: Commands, alone: Commands) -> Iterator[Programs]:
    with ThreadPoolExecutor(WORKERS) as pool:
        yield Programs(pool, at_once, alone)


def _run(command: tuple[str, ...], gateway: Gateway, bias: dict[str, float]) -> None:
    """Skips the test if the program's packages can't be installed."""
    program, *arguments = command
    if program.endswith(".mjs"):
        interpreter, folder = "node", node_folder()
    else:
        python = anthropic_python if program.startswith("use_anthropic") else client_python
        interpreter, folder = str(python()), CLIENTS
    environment = {
        **os.environ,
        "GATEWAY_URL": gateway.url,
        "GATEWAY_KEY": gateway.key,
        "GATEWAY_BIAS": json.dumps(bias),
        "NO_PROXY": "*",
    }
    done = subprocess.run(
        [interpreter, program, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    assert "checked:" in done.stdout


def collected(request: pytest.FixtureRequest) -> set[str]:
    """Return the parameters `name` of the tests of this file that run."""
    items = [item for item in request.session.items if item.path == request.path]
    return {
        str(item.callspec.params["name"]) for item in items if isinstance(item, pytest.Function)
    }


def check_program(
    name: str,
    request: pytest.FixtureRequest,
    running: Programs,
    gateway: Gateway,
    bias: dict[str, float],
) -> None:
    """The test of a program. Modules name it `test_…`."""
    running.check(name, gateway, bias, collected(request))
