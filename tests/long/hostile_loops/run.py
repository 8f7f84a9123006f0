"""Hostile loops: a random model and a faulty MCP server, with the gateway between them.

    python -m tests.long hostile-loops --loops 2000 --out FILE
    python -m tests.long hostile-loops --seed 17                  # one of them again

The model writes valid and invalid calls of twenty tools at random, and some of its answers break
off or hang. The server, a process with the package `mcp`, is slow, answers with megabytes, errors
or wrong types, changes its tools, drops connections and crashes, when it is connected, lists its
tools or is called. Some clients leave. Checked are:
no invalid call runs; every loop ends; no more calls run than `max_tool_calls` and the limit of the
key allow, in at most ten rounds; responses and events have the form of their API; in two of five
loops, a stream is the same as the whole response; at the end nothing is left at the backend or in
the limits.

Each seed has a gateway of its own. The exit status is 1 if something is wrong.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.long.hostile_loops.load import HOSTILE, QUIET, Load
from tests.long.hostile_loops.model import RandomModel
from tests.long.outcomes import Outcome, Runs, parser_of
from tests.support.litellm.mcp import serving
from tests.support.litellm.own_route_process import own_route
from tests.support.servers.fake_backend import running
from toolgate_proxy.backend_client import client
from toolgate_proxy.litellm_host import mcp
from toolgate_proxy.server.request_scope import RequestScope

PER_SEED = 100
SERVER_SECONDS = 5.0
"""Longest time of a listing and of a call, in loops with faults."""
IDLE_SECONDS, REQUEST_SECONDS, QUIET_SECONDS = 30.0, 180.0, 300.0
"""Of a pause of the backend, of a request, and of a listing and a call in loops without faults, of
which busy cores must reach none."""
QUIET_SLOTS = 4
"""Most loops without faults at once: they only wait for the cores."""


@asynccontextmanager
async def servers(calls: Path) -> AsyncIterator[None]:
    """Run both servers. `calls`: the file to which they write the calls that they get."""
    with ExitStack() as stack:
        config = {name: stack.enter_context(_server(name, calls)) for name in (HOSTILE, QUIET)}
        async with serving(**config):
            yield


@contextmanager
def _server(name: str, calls: Path) -> Iterator[dict[str, Any]]:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        number = listener.fileno()
        command = [sys.executable, "-m", "tests.long.hostile_loops.server", str(number), str(calls)]
        process = subprocess.Popen([*command, name], pass_fds=[number], stdout=subprocess.PIPE)
        assert process.stdout is not None
        try:
            assert process.stdout.readline(), "The server did not start."
            yield {"transport": "http", "url": f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"}
        finally:
            process.terminate()
            process.wait(20)


async def loops(seed: int, number: int, concurrency: int) -> Outcome:
    """Run the loops of one seed."""
    outcome, began = Outcome(seed), time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as monkeypatch,
        running(RandomModel(seed)) as model,
    ):
        assert isinstance(model, RandomModel)
        monkeypatch.setattr(client, "IDLE_SECONDS", IDLE_SECONDS)
        calls = Path(folder) / "calls"
        calls.touch()
        async with (
            servers(calls),
            own_route(model, monkeypatch, request_timeout=REQUEST_SECONDS) as gateway,
        ):
            gateway._app = RequestScope(gateway._app)  # type: ignore[assignment]
            load = Load(gateway, model, calls, outcome)
            for seconds, slots, quiet in (
                (QUIET_SECONDS, min(QUIET_SLOTS, concurrency), True),
                (SERVER_SECONDS, concurrency, False),
            ):
                for name in ("LIST_SECONDS", "CALL_SECONDS"):
                    monkeypatch.setattr(mcp, name, seconds)
                await load.run(number, slots, quiet=quiet)
            await load.judge()
        outcome.labels["slowest loop"] = f"{load.slowest:.0f} s"
    outcome.counts["loops"] = number
    outcome.seconds = time.monotonic() - began
    return outcome


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--loops", type=int, default=500, help="loops in all")
    parser.add_argument("--concurrency", type=int, default=16)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)  # LiteLLM logs each fault, with its traceback
    runs = Runs(options.out)
    numbers = [PER_SEED] * (options.loops // PER_SEED)
    if rest := options.loops % PER_SEED:
        numbers.append(rest)
    by_seed = dict(enumerate(numbers))
    if options.seed is not None:
        by_seed = {options.seed: min(PER_SEED, options.loops)}
    with asyncio.Runner() as runner:
        for seed in runs.missing(by_seed):
            runs.add(runner.run(loops(seed, by_seed[seed], options.concurrency)))
    return runs.report("seeds")
