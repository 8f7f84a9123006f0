"""Seeded faults of a simulated fleet: partitions, pauses, kills, lost writes, clock jumps."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, cast

from .network import Link, Network

Kind = Literal["partition", "pause", "kill", "restart", "flush", "hang", "clock"]
WEIGHTS: dict[Kind, int] = {
    "partition": 6,
    "pause": 4,
    "kill": 4,
    "restart": 3,
    "hang": 3,
    "clock": 2,
    "flush": 1,
}


@dataclass
class Record:
    """What happened when, in seconds since the simulation began."""

    counts: Counter[str] = field(default_factory=Counter)
    intervals: list[tuple[float, float, str]] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)
    """When Redis lost writes, or its clock jumped."""

    def note(self, kind: str, began: float) -> None:
        self.counts[kind] += 1
        self.intervals.append((began, time.monotonic(), kind))

    def overlaps(self, begin: float, end: float) -> bool:
        return any(a <= end and b >= begin for a, b, _ in self.intervals)

    def lost_between(self, begin: float, end: float) -> bool:
        return any(begin <= at <= end for at in self.lost)


class Faults:
    """`replace`: kills a gateway and starts another. `flushed`: called after Redis lost all."""

    def __init__(
        self,
        network: Network,
        rng: random.Random,
        replace: Callable[[str], Awaitable[None]],
        flushed: Callable[[], Awaitable[None]],
    ) -> None:
        self.record = Record()
        self.active = 0
        self._network, self._rng = network, rng
        self._replace, self._flushed = replace, flushed

    async def inject(self) -> None:
        """One fault, until it is over."""
        (kind,) = self._rng.choices(list(WEIGHTS), list(WEIGHTS.values()))
        began = time.monotonic()
        self.active += 1
        # The interval is open until the end of the fault.
        self.record.intervals.append(opened := (began, float("inf"), kind))
        try:
            await getattr(self, f"_{kind}")()
        finally:
            self.active -= 1
            self.record.intervals.remove(opened)
            self.record.note(kind, began)

    def _gateway(self) -> str:
        names = [n for n, node in self._network.nodes.items() if node.alive and n != "admin"]
        return self._rng.choice(names)

    async def _partition(self) -> None:
        node = self._network.nodes[self._gateway()]
        node.link = cast(Link, self._rng.choice(["refused", "silent", "one-way"]))
        await asyncio.sleep(self._rng.expovariate(1 / 8))
        node.link = "up"

    async def _pause(self) -> None:
        node = self._network.nodes[self._gateway()]
        node.running.clear()
        await asyncio.sleep(self._rng.expovariate(1 / 8))
        node.running.set()

    async def _kill(self) -> None:
        await self._replace(self._gateway())

    async def _restart(self) -> None:
        """Redis loses its last writes, as with `appendfsync everysec`, and is away for a moment."""
        state = self._network.server.snapshot()
        await asyncio.sleep(self._rng.uniform(0, 1))
        self._network.redis_hangs = True
        self._network.server.restart(state)
        self.record.lost.append(time.monotonic())
        await asyncio.sleep(self._rng.uniform(0.1, 5))
        self._network.redis_hangs = False

    async def _flush(self) -> None:
        self._network.server.restart(({}, {}))
        self.record.lost.append(time.monotonic())
        await asyncio.sleep(self._rng.uniform(0, 10))
        await self._flushed()

    async def _hang(self) -> None:
        self._network.redis_hangs = True
        await asyncio.sleep(self._rng.expovariate(1 / 5))
        self._network.redis_hangs = False

    async def _clock(self) -> None:
        self._network.server.skew += self._rng.uniform(-90, 90)
        self.record.lost.append(time.monotonic())
