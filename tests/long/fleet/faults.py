"""The faults of a simulated fleet, and the invariants that hold in spite of them."""

import asyncio
import json
import random
import time
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, cast

from redis.exceptions import ResponseError

from tests.long.fleet.gateway import Compiler, Found, Gateway, Link, Network, verdict_of
from toolgate_core.tools import Tool
from toolgate_proxy.redis_client import MAX_PAUSE, PATIENT_TIMEOUT

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


WINDOW_MS = 60_000
SLACK = 2.0
"""Seconds for exchanges and probes."""
BREAKER = MAX_PAUSE + PATIENT_TIMEOUT + 1.0
"""Seconds for which a gateway may skip Redis after a fault."""
COMPILING = 20.0
"""Seconds in which requests of several gateways may ask for the same verdicts."""
MAX_KEPT = 20


class Invariants:
    def __init__(
        self, record: Record, compiler: Compiler, *, poll: float, grace: float, lease: float
    ) -> None:
        self.settled = 2 * lease + 20
        """Seconds without faults after which counters are as if there had been none."""
        self.violations: list[str] = []
        self.checks = Counter[str]()
        self.revoked: dict[str, float] = {}
        """When the administrator was told that a key is revoked."""
        self._record, self._compiler = record, compiler
        self._poll, self._grace = poll, grace
        self._counted: set[str] = set()
        """Requests that Redis has admitted."""
        self._windows: dict[bytes, deque[tuple[float, int]]] = defaultdict(deque)
        self._lost = 0

    def fail(self, sentence: str) -> None:
        if len(self.violations) < MAX_KEPT:
            self.violations.append(f"{time.monotonic():.3f} s: {sentence}")

    # --- limits -------------------------------------------------------------------------------

    def watch(self, clock: Callable[[], float]) -> Callable[..., None]:
        """An observer of Redis' scripts. `clock`: that of the server, in milliseconds."""

        def ran(text: str, keys: Sequence[bytes], arguments: Sequence[bytes], reply: Any) -> None:
            if not text.startswith("-- Admits one request"):
                return
            if isinstance(reply, ResponseError) or reply[0] != 0:
                return
            request_id, _, _, limits = json.loads(arguments[0])
            self._counted.add(request_id)
            if self._lost != len(self._record.lost):  # counters may begin anew
                self._lost = len(self._record.lost)
                self._windows.clear()
            for key, (kind, _, limit, amount) in zip(keys, limits, strict=True):
                if kind == "sliding" and limit >= 0 and key.endswith(b":requests"):
                    self._admitted(key, limit, amount, clock())

        return ran

    def _admitted(self, key: bytes, limit: int, amount: int, now: float) -> None:
        window = self._windows[key]
        window.append((now, amount))
        while window[0][0] <= now - WINDOW_MS:
            window.popleft()
        self.checks["requests per minute"] += 1
        used = sum(each for _, each in window)
        if used > limit:
            self.fail(f"{key.decode()}: {used} requests in a minute, limit {limit}")

    def passed(self, request_id: str) -> None:
        """A gateway has let a request with limits pass."""
        self.checks["counted before it passes"] += 1
        if request_id not in self._counted:
            self.fail(f"{request_id} passed without being counted")

    def in_flight(self, key_id: str, count: int, limit: int) -> None:
        """`count`: requests of a key that run at all gateways."""
        now = time.monotonic()
        if self._record.overlaps(now - self.settled, now):
            return  # leases of stopped or unreachable gateways expire while their requests run
        self.checks["requests at once"] += 1
        if count > limit:
            self.fail(f"{key_id}: {count} requests at once, limit {limit}")

    def refused(self, key_id: str, count: int, limit: int) -> None:
        """A request was refused although `count` requests of the key run."""
        now = time.monotonic()
        if self._record.overlaps(now - self.settled, now):
            return
        self.checks["capacity returns"] += 1
        if count == 0:
            self.fail(f"{key_id}: refused although none of its requests runs, limit {limit}")

    # --- keys ---------------------------------------------------------------------------------

    def accepted(self, gateway: Gateway, key_id: str) -> None:
        """A gateway has accepted a key."""
        now = time.monotonic()
        self.checks["keys"] += 1
        if key_id in gateway.retired:
            self.fail(f"{gateway.node.name} accepts {key_id}, which it knew to be revoked")
        revoked = self.revoked.get(key_id)
        if revoked is None or self._record.lost_between(revoked - 1, now):
            return  # Redis may have lost the revocation
        late = now - revoked
        if late > self._poll + SLACK and not self._record.overlaps(revoked - 1, now):
            self.fail(f"{key_id} is accepted {late:.1f} s after it was revoked")
        if late > self._grace + self._poll + SLACK:
            self.fail(f"{key_id} is accepted {late:.1f} s after it was revoked, despite the grace")

    # --- grammars -----------------------------------------------------------------------------

    def found(self, tools: Sequence[Tool], found: Found) -> None:
        for tool in tools:
            self.checks["verdicts"] += 1
            right = verdict_of(tool)
            verdict = found.verdicts.get(right.key, right)
            if verdict != right or (tool.name in found.refused) != (right.status == "refused"):
                self.fail(f"{right.key} has the verdict {verdict!r}")

    def compiled_once(self, lifetime: Callable[[str], float]) -> None:
        """`lifetime`: seconds that a key's record is kept."""
        for key, begun in self._compiler.begun.items():
            # Requests arrive in another order than that in which their grammars are compiled.
            for first, again in pairwise(sorted(begun)):
                if again - first < COMPILING:
                    continue
                self.checks["one compile"] += 1
                explained = self._record.overlaps(first - BREAKER, again)
                if not explained and again - first < lifetime(key) - SLACK:
                    self.fail(f"{key} was compiled at {first:.3f} and {again:.3f} without a fault")

    # --- ends ---------------------------------------------------------------------------------

    def idle(self, gateway: Gateway, before: frozenset[Any]) -> None:
        """No request has run for a while, and nothing has failed. `before`: the tasks of the
        gateway a second ago, among which may be those of an exchange with Redis."""
        self.checks["idle"] += 1
        if gateway.limiter.leases._held:
            self.fail(f"{gateway.node.name} keeps leases of ended requests")
        if not gateway.cache.redis.available or gateway.limiter.counted != "fleet":
            self.fail(f"{gateway.node.name} has not found Redis again")
        names = sorted(task.get_coro().__qualname__ for task in gateway.tasks & before)  # type: ignore[union-attr]
        lasting = {"poll_forever", "Leases._update_forever", "RedisCache._flush_uses_later"}
        if extra := [name for name in names if name not in lasting]:
            self.fail(f"{gateway.node.name} has tasks that do not end: {extra}")
