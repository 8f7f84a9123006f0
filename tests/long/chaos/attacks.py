"""Clients that attack, and one that sends more requests than its key allows."""

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
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx

from tests.long.chaos.fleet import MODEL
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
from toolgate_verify.terms import Api

PAUSE = 2.0
"""Seconds between two attacks."""
SECONDS = 8.0
"""Time limit of an attack."""
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


async def trailers(target: Target) -> str:
    sent = await endless_trailers(target.host, target.port, size=TRAILERS, seconds=SECONDS)
    return "cut" if sent < TRAILERS else ACCEPTED


async def bodies(target: Target) -> str:
    await stalled_bodies(
        target.host, target.port, target.key, connections=8, size=10_000_000, seconds=SECONDS
    )
    return "sent"


async def connections(target: Target) -> str:
    await stalled_connections(target.host, target.port, each=1, seconds=SECONDS)
    return "sent"


async def abandoned(target: Target) -> str:
    """Leave requests at any time between their admission and their first event."""
    body = _request(f"Go on, {target.drawn.randrange(1000)}.", {"type": "object"})

    async def leave(seconds: float) -> None:
        async with connected(target.host, target.port) as (_, writer):
            await send(writer, body(target.key))
            await asyncio.sleep(seconds)

    with suppress(OSError):
        await asyncio.gather(*(leave(target.drawn.uniform(0, 0.3)) for _ in range(20)))
    return "left"


async def schemas(target: Target) -> str:
    """Send a tool whose schema a walk without a bound would never finish."""
    name = target.drawn.choice([*HOSTILE])
    body = _request("Go on.", HOSTILE[name])
    try:
        async with connected(target.host, target.port) as (reader, writer):
            await send(writer, body(target.key))
            received, closed = await read_to_end(reader, RESPONSE_SECONDS)
    except OSError:
        return "no connection"
    if not closed:
        return f"{UNANSWERED} to {name}"
    return received[9:12].decode() or "connection closed"


ATTACKS: dict[str, Callable[[Target], Awaitable[str]]] = {
    "trailers": trailers,
    "stalled bodies": bodies,
    "stalled connections": connections,
    "abandoned requests": abandoned,
    "hostile schemas": schemas,
}


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
            await asyncio.sleep(PAUSE)

    def report(self) -> tuple[str, list[str]]:
        """A table in Markdown, and what is wrong."""
        rows = ["| attack | outcome | times |", "|---|---|---|"]
        wrong = []
        for (name, outcome), count in sorted(self.outcomes.items()):
            rows.append(f"| {name} | {outcome} | {count} |")
            if outcome.startswith(WRONG):
                wrong.append(f"attack by {name}: {outcome}")
        return "\n".join(rows), wrong


def _request(text: str, parameters: dict[str, object]) -> Callable[[str], bytes]:
    """The bytes of a request with one tool, for a key."""
    tool = {"type": "function", "function": {"name": "attack", "parameters": parameters}}
    content = json.dumps(
        {
            "model": MODEL,
            "messages": [{"role": "user", "content": text}],
            "tools": [tool],
            "max_tokens": 40,
            "reasoning_effort": "none",
        }
    ).encode()
    lines = (f"content-length: {len(content)}", "connection: close")
    return lambda key: head(*lines, key=key) + content


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
    limited: int = 0
    failed: int = 0

    async def run(self, ended: asyncio.Event) -> None:
        async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
            for turn in itertools.count():
                if ended.is_set():
                    return
                await self._ask(http, self.urls[turn % len(self.urls)])
                await asyncio.sleep(PROBE_PAUSE)

    async def _ask(self, http: httpx.AsyncClient, url: str) -> None:
        message = {"role": "user", "content": "Go on."}
        body = {"model": MODEL, "messages": [message], "max_tokens": 1, "reasoning_effort": "none"}
        began = time.monotonic()
        try:
            headers = {"authorization": f"Bearer {self.key}"}
            response = await http.post(url + PATHS[Api.CHAT], json=body, headers=headers)
        except httpx.TransportError:
            self.failed += 1
            return
        if response.status_code == 200:
            self.passed.append((began, time.monotonic()))
        elif response.status_code == 429:
            self.limited += 1
        else:
            self.failed += 1

    def report(self) -> tuple[str, list[str]]:
        """A sentence, and what is wrong."""
        most = most_within(self.passed, WINDOW)
        text = (
            f"Key with {PER_MINUTE} requests per minute: {len(self.passed):,} passed, "
            f"{self.limited:,} got a 429, {self.failed:,} failed. Most in any minute: {most}."
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
