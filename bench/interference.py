"""Effect of requests with new tools on running streams.

    python -m bench interference MODEL_DIR [--streams 16] [--seconds 8] [--rounds 6] > report.md

Toolgate with its gateway and vLLM with strict tools run at the same time and are measured in turn.
A phase has 16 plain streams. Phases differ in the requests that arrive meanwhile: none, requests
with known tool sets, or requests with new ones. Known tool sets show the cost of the prompts
without compilation. The rate of the requests is constant, and their prompts share no cache. Tools
are BFCL's (`$TOOLGATE_SHARED/data`). A new set is a known one with new names, so that prompts are
equally long.

Prints Markdown: time between events of the plain streams, and time to the first event of the
requests with tools.
"""

import argparse
import asyncio
import itertools
import json
import random
import statistics
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import httpx

from bench.support.backend_client import stream_events
from bench.support.contenders import Server, exit_on_sigterm, running
from bench.support.tools import bfcl_tools, renamed
from tests.support import markdown

CONTENDERS = ("toolgate", "vllm-strict")
Arriving = Literal["nothing", "known tool sets", "new tool sets"]
ARRIVING: tuple[Arriving, ...] = ("nothing", "known tool sets", "new tool sets")
HEAD = (
    *("server", "arriving", "between events p50", "p99", "max"),
    *("first event p50", "p95", "requests", "errors"),
)
SETS = 4
PERIOD = 0.75
"""Seconds between two requests with tools."""
TOKENS = 400
"""Tokens of a plain stream."""


@dataclass
class Phase:
    """Measurements in milliseconds."""

    gaps: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def add(self, other: "Phase") -> None:
        self.gaps += other.gaps
        self.first += other.first
        self.errors += other.errors


def wide_tools() -> list[dict[str, Any]]:
    """Tools with at least two properties."""
    return [t for t in bfcl_tools() if len(t["function"]["parameters"].get("properties", {})) > 1]


def renewed(tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tools with new names, which are in no cache."""
    salt = uuid.uuid4().hex[:8]
    return [renamed(tool, f"{salt}{at}") for at, tool in enumerate(tools)]


class Load:
    """Sends requests to one server."""

    def __init__(self, server: Server, http: httpx.AsyncClient, sets: list[list[dict[str, Any]]]):
        self._server, self._http = server, http
        self._model = server.model_name()
        self._rng = random.Random(3)
        self._sets = sets
        self._known = [renewed(tools) for tools in sets]

    async def warm_up(self, streams: int) -> None:
        for tools in self._known:
            await self._with_tools(Phase(), tools)
        await self.phase(streams, 2, "new tool sets")

    async def phase(self, streams: int, seconds: float, arriving: Arriving) -> Phase:
        phase, stopped = Phase(), asyncio.Event()

        async def background() -> None:
            while not stopped.is_set():
                await self._plain(phase)

        async def foreground() -> None:
            for number in itertools.count():
                if stopped.is_set():
                    return
                at, known = number % len(self._sets), arriving == "known tool sets"
                tools = self._known[at] if known else renewed(self._sets[at])
                request = asyncio.create_task(self._with_tools(phase, tools))
                await asyncio.sleep(PERIOD)
                await request

        tasks = [asyncio.create_task(background()) for _ in range(streams)]
        if arriving != "nothing":
            tasks.append(asyncio.create_task(foreground()))
        await asyncio.sleep(seconds)
        stopped.set()
        await asyncio.gather(*tasks)
        return phase

    async def _plain(self, phase: Phase) -> None:
        times = [at async for at in self._events({"max_tokens": TOKENS, "ignore_eos": True}, phase)]
        phase.gaps += [1e3 * (after - at) for at, after in itertools.pairwise(times)]

    async def _with_tools(self, phase: Phase, tools: list[dict[str, Any]]) -> None:
        body = {
            "tools": tools,
            "tool_choice": "required",
            "max_tokens": 256,
            "cache_salt": uuid.uuid4().hex,
        }
        began = time.perf_counter()
        async for at in self._events(body, phase):
            phase.first.append(1e3 * (at - began))
            break

    async def _events(self, extra: dict[str, Any], phase: Phase) -> AsyncIterator[float]:
        """Arrival time of each event, in seconds of the performance counter."""
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": f"Go on. {self._rng.random()}"}],
            "stream": True,
            "chat_template_kwargs": {"enable_thinking": False},
            **extra,
        }
        headers = {
            "authorization": f"Bearer {self._server.key}",
            "content-type": "application/json",
        }
        url = f"{self._server.url}/v1/chat/completions"
        try:
            async for _ in stream_events(self._http, url, json.dumps(body).encode(), headers):
                yield time.perf_counter()
        except RuntimeError as error:
            phase.errors.append(str(error))


async def measure(servers: dict[str, Server], options: argparse.Namespace) -> None:
    rng, tools = random.Random(3), wide_tools()
    sets = [rng.sample(tools, options.tools) for _ in range(SETS)]
    limits = httpx.Limits(max_connections=None)
    found: dict[tuple[str, Arriving], list[Phase]] = {}
    async with httpx.AsyncClient(timeout=120, limits=limits, trust_env=False) as http:
        loads = {name: Load(server, http, sets) for name, server in servers.items()}
        for load in loads.values():
            await load.warm_up(options.streams)
        for _ in range(options.rounds):
            for name, load in loads.items():
                for arriving in ARRIVING:
                    phase = await load.phase(options.streams, options.seconds, arriving)
                    found.setdefault((name, arriving), []).append(phase)
    print(table(found, options))


def table(found: dict[tuple[str, Arriving], list[Phase]], options: argparse.Namespace) -> str:
    lines = [
        f"{options.streams} plain streams of {TOKENS} tokens; a request with {options.tools} tools "
        f"every {PERIOD} s; {options.rounds} rounds of {options.seconds:.0f} s.",
        "",
        markdown.head(HEAD),
    ]
    for (name, arriving), phases in found.items():
        whole = Phase()
        for phase in phases:
            whole.add(phase)
        cells = [name, arriving]
        cells += [f"{share(whole.gaps, q):.1f} ms" for q in (0.5, 0.99, 1)]
        cells += [f"{share(whole.first, q):.0f} ms" if whole.first else "" for q in (0.5, 0.95)]
        cells += [str(len(whole.first)) if whole.first else "", str(len(whole.errors))]
        lines.append(markdown.row(cells))
    lines += [
        "",
        markdown.head(["server", "between events: median of rounds (min – max)", "p99", "max"]),
    ]
    for name, (over, under) in itertools.product(
        CONTENDERS, itertools.combinations(ARRIVING[::-1], 2)
    ):
        pairs = list(zip(found[name, over], found[name, under], strict=True))
        cells = [name, f"{over} ÷ {under}"]
        for quantile in (0.99, 1.0):
            ratios = [
                share(one.gaps, quantile) / share(other.gaps, quantile) for one, other in pairs
            ]
            cells.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f} – {max(ratios):.2f})")
        lines.append(markdown.row(cells))
    for phases in found.values():
        lines += [f"\nerror: {error}" for phase in phases for error in phase.errors[:1]]
    return "\n".join(lines)


def share(values: Sequence[float], quantile: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(quantile * len(ordered)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--tools", type=int, default=8, help="tools per request")
    options = parser.parse_args()
    exit_on_sigterm()
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(running(name, options.model.resolve())) for name in CONTENDERS
        }
        asyncio.run(measure(servers, options))
