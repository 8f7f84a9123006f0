"""Keep a fleet under load and faults for hours, and check responses and growth.

    python -m tests.long soak MODEL_DIR [--hours 1] [--logs DIR] [--plots docs/plots] \
        [--clock-error SECONDS] > report.md

Starts Valkey, one backend and two gateways. Clients send requests as in `chaos`, to all three APIs,
and some of them disconnect early. One more client sends twice as many requests as its key allows,
and another one attacks: trailers without end, stalled bodies and connections, abandoned requests,
and schemas that a walk without a bound would not finish.
One after another, the first gateway, its workers and its supervisor, and Valkey get a SIGKILL or a
SIGSTOP, and Valkey's memory is full; `chaos` does so with backends. The second gateway and the
backend run all the time: their memory, descriptors and threads are sampled, and the sequences and
grammars in the backend. With `--clock-error`, the clock of the first gateway is wrong by so many
seconds (libfaketime: `apt install faketime`).

The exit status is 1 if a response was wrong, if a request failed outside of a fault, if a limit was
exceeded by more than 1 %, if a server grows, or if requests are left in the end.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import linear_regression
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import psutil
import redis
import redis.asyncio

from bench.support import plots
from tests.long.chaos.fleet import FAULTS, MODEL, Fleet, Server, title
from tests.long.chaos.load import Load
from tests.long.chaos.run import (
    EXPECTED,
    SETTLED_SECONDS,
    STOPPED_SECONDS,
    Found,
    conduct,
    inflict,
    loaded,
    make_key,
    parser_of,
    violations,
)
from tests.long.fuzz.run import left_in_gateway
from tests.support import markdown
from tests.support.apis.replies import PATHS
from tests.support.attacks.wire import (
    connected,
    endless_trailers,
    head,
    read_to_end,
    send,
    stalled_bodies,
    stalled_connections,
)
from tests.support.schemas.hostile import HOSTILE
from tests.support.servers.http_client import http_client
from toolgate_verify.terms import Api

STEADY = ("backend-1", "gateway-2")
TARGETS = ("gateway worker", "gateway supervisor", "Valkey", "validation", "quarantine workers")
FAULT_PAUSE = 20.0
"""Seconds of load between two faults."""
EVERY = 10.0
"""Seconds between two samples."""
AFTER = 15.0
"""Seconds after a fault in which a failed request is its consequence."""
CANCELLED = 0.08
SCHEMAS = 1000
"""Schemas of new tools, beside the few that are drawn from a larger number."""
CACHES = {"TOOLGATE_MAX_GRAMMARS": "128", "TOOLGATE_CACHE_MB": "22"}
"""Bounds of the backend's caches that are reached in the first minutes. With the usual ones its
memory grows for hours, with each schema that it sees for the first time (docs/results/results.md),
which would hide a leak."""
FULL_BYTES = 1_000_000
"""Limit on Valkey's memory for a while. Its data take more."""


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--plots", type=Path, help="directory for plots of the growth")
    parser.add_argument("--clock-error", type=int, default=0, help="of the first gateway")
    options = parser.parse_args()
    clock = clock_environment(options.clock_error) if options.clock_error else {}
    return conduct(
        options,
        partial(Fleet, backends=1, backend_environment=CACHES, first_gateway_environment=clock),
        lambda fleet, bias: soak(fleet, bias, options.hours * 3600, options.plots),
    )


def clock_environment(seconds: int) -> dict[str, str]:
    """Variables with which a process has a clock that is wrong by `seconds`."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not found:
        raise SystemExit("--clock-error needs libfaketime. Install it: apt install faketime")
    return {
        "LD_PRELOAD": str(found[0]),
        "FAKETIME": f"{seconds:+d}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


async def soak(
    fleet: Fleet, bias: dict[str, float], seconds: float, directory: Path | None
) -> list[str]:
    """What is wrong. Prints the tables."""
    probe = LimitProbe(fleet.gateway_urls, await make_key(fleet, "limited", rpm=PER_MINUTE))
    attacks = Attacks(fleet.gateway_urls, await make_key(fleet, "attacker"))
    samples: list[Sample] = []
    options = {"apis": tuple(Api), "cancelled": CANCELLED, "schemas": SCHEMAS}
    async with (
        loaded(fleet, bias, fleet.gateway_urls, **options) as (load, found),
        asyncio.TaskGroup() as group,
    ):
        group.create_task(probe.run(load.ended))
        group.create_task(attacks.run(load.ended))
        sampling = group.create_task(sample_forever(fleet, samples))
        began = time.monotonic()
        faults = [each for each in FAULTS if each.target.name.startswith(TARGETS)]
        for fault in itertools.cycle((*faults, None)):
            await asyncio.sleep(FAULT_PAUSE)
            if time.monotonic() - began > seconds:
                break
            result = await (fill_valkey(fleet) if fault is None else inflict(fleet, fault))
            if result is not None:
                found.append(result)
        load.ended.set()
        sampling.cancel()
    grown, growing = growth_of(samples)
    limits, exceeded = probe.report()
    attacked, broken = attacks.report()
    print(f"\n{grown}\n\n{limits}\n\n{attacked}\n")
    if directory is not None:
        draw(samples, directory)
    left = [
        each for url in fleet.gateway_urls for each in await left_in_gateway(url, fleet.master_key)
    ]
    wrong = left + growing + exceeded + broken + violations(load.outcomes, found)
    return wrong + unexplained(load, found)


async def fill_valkey(fleet: Fleet) -> Found:
    """Valkey refuses to write for a while, as its memory is full."""
    began, url = time.monotonic(), fleet.redis_url
    async with redis.asyncio.Redis.from_url(url) as client:
        await client.config_set("maxmemory", FULL_BYTES)
        await asyncio.sleep(STOPPED_SECONDS)
        await client.config_set("maxmemory", 0)
    back = time.monotonic() - began
    await asyncio.sleep(SETTLED_SECONDS)
    return Found("Valkey's memory is full", began, time.monotonic(), back)


def unexplained(load: Load, found: list[Found]) -> list[str]:
    """Failed requests that ran during no fault."""
    return [
        f"{each.what} without a fault"
        for each in load.outcomes
        if each.what not in EXPECTED
        and not any(
            fault.began <= each.began + each.seconds and each.began <= fault.ended + AFTER
            for fault in found
        )
    ]


async def sample_forever(fleet: Fleet, samples: list[Sample]) -> None:
    while True:
        samples += await asyncio.to_thread(sample, fleet)
        await asyncio.sleep(EVERY)


# --- growth ---

PER_HOUR = {
    "memory, MB": 60.0,
    "descriptors": 10.0,
    "threads": 4.0,
    "sequences": 5.0,
    "pinned grammars": 10.0,
    "running": 5.0,
}
"""Most growth per hour in the second half of a run. Other values are only reported: records of new
grammars are kept in Redis for days."""
ON_DEMAND = ("toolgate_proxy.validation.validator", "toolgate_backend.grammars.examination")
"""Processes that come and go, each with its memory and descriptors. They are not counted."""
SHORTEST = 1200.0
"""Seconds of a run from which growth is judged. Before, caches fill."""


@dataclass(frozen=True)
class Sample:
    at: float
    """Monotonic, in seconds."""
    server: str
    values: dict[str, float]


def sample(fleet: Fleet) -> list[Sample]:
    """What the servers that no fault restarts take."""
    now = time.monotonic()
    steady = [server for server in fleet.servers if server.name in STEADY]
    samples = [Sample(now, server.name, _taken(server)) for server in steady]
    state = fleet.backend_state()
    if state is not None:
        names = ("loaded_grammars", "pinned_grammars", "sequences", "running")
        values = {name.replace("_", " "): float(state[name]) for name in names}
        samples.append(Sample(now, "automata", values))
    with (
        suppress(redis.RedisError),
        redis.Redis.from_url(fleet.redis_url, socket_timeout=1) as client,
    ):
        memory = float(client.info("memory")["used_memory"]) / 2**20
        values = {"keys": float(client.dbsize()), "data, MB": memory}
        samples.append(Sample(now, "valkey", values | {"disk, MB": fleet.disk_bytes() / 2**20}))
    return samples


def _taken(server: Server) -> dict[str, float]:
    values = dict.fromkeys(("memory, MB", "descriptors", "threads"), 0.0)
    for process in server.family():
        if any(name in title(process) for name in ON_DEMAND):
            continue
        with suppress(psutil.NoSuchProcess):
            values["memory, MB"] += process.memory_info().rss / 2**20
            values["descriptors"] += process.num_fds()
            values["threads"] += process.num_threads()
    return values


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Growth per hour by least squares. `points`: seconds and values."""
    if len(points) < 3:
        return 0.0
    return 3600 * linear_regression(*zip(*points, strict=True)).slope


def draw(samples: Sequence[Sample], directory: Path) -> None:
    """Plots of the memory and the descriptors of the servers over the minutes of the run."""
    for name, unit in (("memory, MB", "MB"), ("descriptors", "descriptors")):
        lines: dict[str, list[tuple[float, float]]] = {}
        for each in samples:
            if name in each.values:
                point = ((each.at - samples[0].at) / 60, each.values[name])
                lines.setdefault(each.server, []).append(point)
        what = name.partition(",")[0]
        plots.lines(directory / f"soak-{what}.svg", f"Soak: {what}", "minutes", unit, lines)


def growth_of(samples: Sequence[Sample]) -> tuple[str, list[str]]:
    """A table in Markdown, and what grows too much."""
    rows, wrong = [], []
    began, ended = samples[0].at, samples[-1].at
    names = dict.fromkeys((each.server, name) for each in samples for name in each.values)
    for server, name in names:
        mine = [(s.at, s.values[name]) for s in samples if s.server == server and name in s.values]
        growth = slope([point for point in mine if point[0] >= (began + ended) / 2])
        shown = (mine[0][1], max(value for _, value in mine), mine[-1][1])
        rows.append([server, name, *(f"{value:,.0f}" for value in shown), f"{growth:+,.1f}"])
        if ended - began >= SHORTEST and growth > PER_HOUR.get(name, float("inf")):
            wrong.append(f"{server}: {name} grows by {growth:.1f} per hour")
    head = ["server", "", "first", "most", "last", "growth per hour, second half"]
    return markdown.table(head, rows), wrong


# --- clients that attack ---

ATTACK_PAUSE, ATTACK_SECONDS = 2.0, 8.0
"""Between two attacks, and the time limit of one."""
RESPONSE_SECONDS = 60.0
"""Time limit of the response to a hostile schema."""
TRAILERS = 50_000_000
"""Bytes of trailers that are offered."""
ACCEPTED, UNANSWERED = "accepted", "no response"
WRONG = (ACCEPTED, UNANSWERED, "500")
"""How outcomes begin that no gateway may have."""


class Target(NamedTuple):
    host: str
    port: int
    key: str
    """The key that the attacker has."""
    drawn: random.Random


async def _trailers(target: Target) -> str:
    host, port, *_ = target
    sent = await endless_trailers(host, port, size=TRAILERS, seconds=ATTACK_SECONDS)
    return "cut" if sent < TRAILERS else ACCEPTED


async def _bodies(target: Target) -> str:
    host, port, key, _ = target
    await stalled_bodies(host, port, key, connections=8, size=10_000_000, seconds=ATTACK_SECONDS)
    return "sent"


async def _connections(target: Target) -> str:
    await stalled_connections(target.host, target.port, each=1, seconds=ATTACK_SECONDS)
    return "sent"


async def _abandoned(target: Target) -> str:
    """Leave requests at any time between their admission and their first event."""
    body = _request(target, f"Go on, {target.drawn.randrange(1000)}.", {"type": "object"})

    async def leave(seconds: float) -> None:
        async with connected(target.host, target.port) as (_, writer):
            await send(writer, body)
            await asyncio.sleep(seconds)

    with suppress(OSError):
        await asyncio.gather(*(leave(target.drawn.uniform(0, 0.3)) for _ in range(20)))
    return "left"


async def _schemas(target: Target) -> str:
    """Send a tool whose schema a walk without a bound would never finish."""
    name = target.drawn.choice([*HOSTILE])
    async with connected(target.host, target.port) as (reader, writer):
        await send(writer, _request(target, "Go on.", HOSTILE[name]))
        received, closed = await read_to_end(reader, RESPONSE_SECONDS)
    if not closed:
        return f"{UNANSWERED} to {name}"
    return received[9:12].decode() or "connection closed"


ATTACKS: dict[str, Callable[[Target], Awaitable[str]]] = {
    "trailers": _trailers,
    "stalled bodies": _bodies,
    "stalled connections": _connections,
    "abandoned requests": _abandoned,
    "hostile schemas": _schemas,
}


def _request(target: Target, text: str, parameters: dict[str, object]) -> bytes:
    """A request with one tool."""
    tool = {"type": "function", "function": {"name": "attack", "parameters": parameters}}
    content = json.dumps({**_asked(text, 40), "tools": [tool]}).encode()
    lines = (f"content-length: {len(content)}", "connection: close")
    return head(*lines, key=target.key) + content


def _asked(text: str, max_tokens: int) -> dict[str, Any]:
    said = [{"role": "user", "content": text}]
    budget = {"max_tokens": max_tokens, "reasoning_effort": "none"}
    return {"model": MODEL, "messages": said, **budget}


@dataclass
class Attacks:
    """Attacks all `urls` in turn, with the virtual key `key`."""

    urls: Sequence[str]
    key: str
    seed: int = 1
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)

    async def run(self, ended: asyncio.Event) -> None:
        drawn = random.Random(self.seed)
        for turn in itertools.count():
            if ended.is_set():
                return
            name = [*ATTACKS][turn % len(ATTACKS)]
            url = urlsplit(self.urls[turn // len(ATTACKS) % len(self.urls)])
            target = Target(url.hostname or "", url.port or 0, self.key, drawn)
            try:
                outcome = await ATTACKS[name](target)
            except OSError:  # the gateway is being restarted
                outcome = "no connection"
            self.outcomes[name, outcome] += 1
            await asyncio.sleep(ATTACK_PAUSE)

    def report(self) -> tuple[str, list[str]]:
        """A table in Markdown, and what is wrong."""
        found = sorted(self.outcomes.items())
        wrong = [f"attack by {name}: {what}" for (name, what), _ in found if what.startswith(WRONG)]
        rows = ([*key, str(count)] for key, count in found)
        return markdown.table(["attack", "outcome", "times"], rows), wrong


# --- a client that sends more than its key allows ---

PER_MINUTE = 60
"""The limit of the key."""
PROBE_PAUSE = 0.5
"""Seconds between two requests: twice as many as the limit."""
WINDOW = 60.0
TOLERANCE = 0.01


@dataclass
class LimitProbe:
    urls: Sequence[str]
    key: str
    passed: list[tuple[float, float]] = field(default_factory=list)
    """When requests that were admitted began and ended."""
    others: Counter[str] = field(default_factory=Counter)

    async def run(self, ended: asyncio.Event) -> None:
        async with http_client("", self.key, timeout=60) as http:
            for turn in itertools.count():
                if ended.is_set():
                    return
                await self._ask(http, self.urls[turn % len(self.urls)])
                await asyncio.sleep(PROBE_PAUSE)

    async def _ask(self, http: httpx.AsyncClient, url: str) -> None:
        began, status = time.monotonic(), 0
        with suppress(httpx.TransportError):
            response = await http.post(url + PATHS[Api.CHAT], json=_asked("Go on.", 1))
            status = response.status_code
        if status == 200:
            self.passed.append((began, time.monotonic()))
        else:
            self.others["got a 429" if status == 429 else "failed"] += 1

    def report(self) -> tuple[str, list[str]]:
        """A sentence, and what is wrong."""
        most = most_within(self.passed, WINDOW)
        others = "".join(f", {count:,} {what}" for what, count in sorted(self.others.items()))
        text = (
            f"Key with {PER_MINUTE} requests per minute: {len(self.passed):,} passed{others}. "
            f"Most in any minute: {most}."
        )
        allowed = PER_MINUTE * (1 + TOLERANCE)
        return text, [f"{most} requests passed within a minute"] if most > allowed else []


def most_within(passed: Sequence[tuple[float, float]], seconds: float) -> int:
    """The most requests whose beginning and end, and so their admission, are within `seconds`.
    `passed` is in the order of the beginnings, and the requests do not overlap."""
    most = first = 0
    for last, (_, end) in enumerate(passed):
        while end - passed[first][0] > seconds:
            first += 1
        most = max(most, last - first + 1)
    return most
