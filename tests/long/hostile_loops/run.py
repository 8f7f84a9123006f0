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

import argparse
import asyncio
import logging
import tempfile
import time
from pathlib import Path

import pytest

from tests.long.hostile_loops.load import Load
from tests.long.hostile_loops.model import RandomModel
from tests.long.hostile_loops.servers import servers
from tests.long.outcomes import Outcome, add_options, counted, keep, kept, violations
from tests.support.litellm.own_route_process import own_route
from tests.support.servers.fake_backend import running
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


async def loops(seed: int, number: int, concurrency: int) -> Outcome:
    """Run the loops of one seed."""
    outcome, began = Outcome(seed), time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as monkeypatch,
        running(RandomModel(seed)) as model,
    ):
        assert isinstance(model, RandomModel)
        changes = {"idle_timeout": IDLE_SECONDS, "request_timeout": REQUEST_SECONDS}
        calls = Path(folder) / "calls"
        calls.touch()
        async with servers(calls), own_route(model, monkeypatch, **changes) as gateway:
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


async def _all(seeds: list[int], options: argparse.Namespace) -> list[Outcome]:
    done = kept(options.out)
    for at, seed in enumerate(seeds):
        if seed not in done:
            number = min(PER_SEED, options.loops - PER_SEED * at)
            done[seed] = await loops(seed, number, options.concurrency)
            keep(options.out, done[seed])
    return [done[seed] for seed in seeds]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.long hostile-loops",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--loops", type=int, default=500, help="loops in all")
    parser.add_argument("--concurrency", type=int, default=16)
    add_options(parser)
    options = parser.parse_args()
    if options.seed is not None:
        seeds = [options.seed]
    else:
        seeds = list(range(-(-options.loops // PER_SEED)))
    logging.disable(logging.CRITICAL)  # LiteLLM logs each fault, with its traceback
    outcomes = asyncio.run(_all(seeds, options))
    print("\n".join([*counted(outcomes, "seeds"), *violations(outcomes)]))
    return 1 if any(each.violations for each in outcomes) else 0
