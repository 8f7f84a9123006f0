"""Simulate fleets of gateways with faults, and check limits, keys and grammars.

    python -m tests.long fleet --seeds 100 --days 10     # 1,000 days
    python -m tests.long fleet --seed 17 --days 10       # one of them again

Each seed is a fleet of its own, with its own faults. The exit status is 1 if an invariant was
violated; the seeds are printed.
"""

import asyncio
import contextlib
import hashlib
import logging
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from pydantic import SecretStr

from tests.long.fleet.faults import Faults, Invariants
from tests.long.fleet.gateway import (
    HASHER,
    Compiler,
    Gateway,
    Network,
    simulated_redis,
    tool_of,
    track_tasks,
    verdict_of,
    virtual_time,
)
from tests.long.fleet.redis_server import RedisServer
from tests.long.outcomes import Outcome, Runs, parser_of, require_hash_seed, seeds_of, side_by_side
from toolgate_core.errors import (
    InvalidKey,
    KeysUnavailable,
    LimitsUnavailable,
    RateLimited,
    RetiredKey,
)
from toolgate_core.tools import Tool
from toolgate_proxy.grammars.verdicts import FIRST_TTL, verdict_ttl
from toolgate_proxy.keys.key import Key, Limits, StoredSecret, Terms, now
from toolgate_proxy.keys.limit_kinds import Tokens
from toolgate_proxy.keys.redis_store import RedisStore, StoreConflict


def main() -> int:
    require_hash_seed()
    parser = parser_of(__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="number of fleets")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--days", type=float, default=1.0, help="simulated days of each fleet")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    profile = Profile(days=options.days)
    runs = Runs(options.out, days=f"{options.days:g}")
    work = partial(simulate, profile=profile)
    for outcome in side_by_side(work, runs.missing(seeds_of(options)), options.processes):
        runs.add(outcome)
    return runs.report(
        f"fleets of {profile.gateways} gateways",
        f"Simulated days: {len(runs.done) * profile.days:g}, with {profile.bursts_per_day} bursts "
        f"of {profile.burst_seconds:g} s each",
    )


DAY = 86_400.0
LIMITS: tuple[dict[str, int], ...] = (
    {"rpm": 20},
    {"max_parallel_requests": 2},
    {"rpm": 60, "tpm": 4_000, "max_parallel_requests": 4},
    {"tokens_per_day": 10_000_000},
)


@dataclass(frozen=True)
class Profile:
    days: float
    bursts_per_day: int = 4
    burst_seconds: float = 90.0
    requests_per_second: float = 2.0
    faults_per_burst: float = 2.0
    gateways: int = 3
    poll: float = 30.0
    grace: float = 300.0
    lease: float = 20.0


class Scenario:
    def __init__(self, seed: int, profile: Profile) -> None:
        self.profile = profile
        self._seed = seed
        self._rng = self._random("requests")
        self.server = RedisServer()
        self.network = Network(self.server, self._random("network"))
        self.compiler = Compiler(self._random("compiler"))
        self.faults = Faults(self.network, self._random("faults"), self._replace, self._import)
        self.invariants = Invariants(
            self.faults.record,
            self.compiler,
            poll=profile.poll,
            grace=profile.grace,
            lease=profile.lease,
        )
        self.server.ran.append(self.invariants.watch(self.server.now))
        self.gateways: dict[str, Gateway] = {}
        self.outcomes = Counter[str]()
        self._keys: dict[str, tuple[str, Key]] = {}
        """By alias: the secret, and the key as it should be."""
        self._tools: list[Tool] = []
        self._digest = hashlib.sha256()
        self._count = 0

    def _random(self, purpose: str) -> random.Random:
        return random.Random(f"{self._seed} {purpose}")

    async def run(self) -> None:
        self.network.node("admin")
        self._owners = track_tasks(asyncio.get_running_loop())
        for at, limits in enumerate(LIMITS):
            await self._create(f"kept{at}", **limits)
        for _ in range(self.profile.gateways):
            await self._start()
        end = self.profile.days * DAY
        pause = DAY / self.profile.bursts_per_day
        while time.monotonic() < end:
            await self._burst()
            await asyncio.sleep(self._rng.uniform(0.2, 1.8) * pause)
        by_key = {verdict.key: verdict for verdict in map(verdict_of, self._tools)}
        self.invariants.compiled_once(lambda key: min(FIRST_TTL, verdict_ttl(by_key[key])))
        for gateway in self.gateways.values():
            await gateway.kill()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(1)

    # --- gateways -----------------------------------------------------------------------------

    async def _start(self) -> None:
        self._count += 1
        node = self.network.node(f"gateway-{self._count}")
        profile = self.profile
        gateway = Gateway(
            node,
            self.compiler,
            self._owners[node.name],
            poll=profile.poll,
            grace=profile.grace,
            lease=profile.lease,
        )
        self.gateways[node.name] = gateway
        await gateway.spawn(gateway.start())

    async def _replace(self, name: str) -> None:
        gateway = self.gateways.pop(name)
        await gateway.kill()
        del self.network.nodes[name]
        await self._start()

    # --- keys ---------------------------------------------------------------------------------

    async def _create(self, alias: str, **limits: int) -> None:
        secret = f"sk-tg-{alias}-{self._seed}-of-the-simulation"
        stored = StoredSecret(hash=HASHER.hash(secret), hint="sk")
        digest = hashlib.sha256(secret.encode()).hexdigest()[:16]
        terms = Terms(limits=Limits(**limits))
        key = Key(id=f"key_{digest}", alias=alias, terms=terms, secrets=(stored,), created=now())
        if await self._put(key):
            self._keys[alias] = secret, key

    async def _revoke(self, alias: str) -> None:
        secret, key = self._keys[alias]
        gone = key.model_copy(update={"revoked": now()})
        if await self._put(gone):
            self._keys[alias] = secret, gone
            self.invariants.revoked[key.id] = time.monotonic()

    async def _put(self, key: Key) -> bool:
        """Whether Redis has confirmed it."""
        store = RedisStore(SecretStr("redis://admin:6379"), HASHER)
        try:
            async with asyncio.timeout(5):
                await store.find(key.id)
                await store.put(key)
        except (TimeoutError, StoreConflict):
            return False
        return True

    async def _import(self) -> None:
        """The administrator creates the keys again, after Redis has lost them."""
        for _, key in self._keys.values():
            if key.revoked is None:
                for _ in range(600):
                    if await self._put(key):
                        break
                    await asyncio.sleep(1)

    # --- requests -----------------------------------------------------------------------------

    async def _burst(self) -> None:
        profile, rng = self.profile, self._rng
        began, running = time.monotonic(), set()
        count = max(0, round(rng.gauss(profile.faults_per_burst, profile.faults_per_burst / 2)))
        due = sorted(rng.uniform(0, profile.burst_seconds) for _ in range(count))
        alias, at = f"temporary{len(self._keys)}", rng.uniform(0, profile.burst_seconds)
        await self._create(alias, rpm=1000)
        while (passed := time.monotonic() - began) < profile.burst_seconds:
            if due and passed >= due[0]:
                due.pop(0)
                running.add(asyncio.create_task(self.faults.inject()))
            if at and passed >= at and alias in self._keys:
                at = 0.0
                running.add(asyncio.create_task(self._revoke(alias)))
            gateway = rng.choice(list(self.gateways.values()))
            task = gateway.spawn(self._request(gateway, self._alias()))
            running.add(task)
            task.add_done_callback(running.discard)
            await asyncio.sleep(rng.expovariate(profile.requests_per_second))
        await asyncio.gather(*running, return_exceptions=True)
        await asyncio.sleep(self.invariants.settled)
        tasks = {name: frozenset(gateway.tasks) for name, gateway in self.gateways.items()}
        await asyncio.sleep(1)
        for name, gateway in self.gateways.items():
            self.invariants.idle(gateway, tasks[name])

    def _alias(self) -> str:
        """Often one of the keys that are kept, otherwise one of the last two."""
        aliases = list(self._keys)
        return self._rng.choice(aliases[: len(LIMITS)] * 2 + aliases[-2:])

    async def _request(self, gateway: Gateway, alias: str) -> None:
        await gateway.node.running.wait()
        outcome = "failed"
        try:
            outcome = await self._responded(gateway, alias)
        except asyncio.CancelledError:
            outcome = "killed"
            raise
        except Exception:
            logging.getLogger("fleet").exception("A request failed in the simulation.")
            self.invariants.fail("a request ended with an unexpected exception")
        finally:
            self.outcomes[outcome] += 1
            self._digest.update(f"{time.monotonic():.6f} {gateway.node.name} {outcome}\n".encode())

    async def _responded(self, gateway: Gateway, alias: str) -> str:
        secret, known = self._keys[alias]
        try:
            key = gateway.keys.find(secret)
        except RetiredKey:
            gateway.retired.add(known.id)
            return "revoked"
        except KeysUnavailable:
            return "no keys"
        except InvalidKey:
            return "unknown key"
        self.invariants.accepted(gateway, key.id)
        request_id = f"r{self._rng.getrandbits(64):x}"
        tokens = Tokens(self._rng.randrange(200), self._rng.randrange(200))
        parallel = key.limits.max_parallel_requests  # type: ignore[attr-defined]
        try:
            lease = await gateway.limiter.admit(key, request_id, tokens, lambda: tokens)
        except LimitsUnavailable:
            return "no limits"
        except RateLimited as limited:
            if parallel and "at once" in limited.message:
                self.invariants.refused(key.id, self._running(key.id), parallel)
            return "limited"
        if key.limits.any:
            self.invariants.passed(request_id)
        gateway.running[key.id] += 1
        try:
            if parallel:
                self.invariants.in_flight(key.id, self._running(key.id), parallel)
            await self._generated(gateway)
        finally:
            gateway.running[key.id] -= 1
            await lease.settle()
        return "served"

    def _running(self, key_id: str) -> int:
        return sum(gateway.running[key_id] for gateway in self.gateways.values())

    async def _generated(self, gateway: Gateway) -> None:
        if self._rng.random() < 0.3 or not self._tools:
            name = self._rng.choice(["tool", "tool", "tool", "bad"])
            self._tools.append(tool_of(f"{name}-{len(self._tools)}"))
        tools = self._rng.sample(self._tools[-8:], min(3, len(self._tools)))
        self.invariants.found(tools, await gateway.request(tools))
        await asyncio.sleep(self._rng.expovariate(0.5))

    def outcome(self) -> Outcome:
        counts = Counter({"compiles": self.compiler.compiles.total()})
        counted = {
            "checks": self.invariants.checks,
            "faults": self.faults.record.counts,
            "requests": self.outcomes,
        }
        for kind, found in counted.items():
            counts.update({f"{kind}: {name}": count for name, count in found.items()})
        labels = {"days": f"{self.profile.days:g}", "digest": self._digest.hexdigest()}
        return Outcome(
            self._seed, labels=labels, counts=counts, violations=self.invariants.violations
        )


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """The gateways' reports of the faults, which are many and expected, are not logged."""
    logger = logging.getLogger("toolgate_proxy")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def simulate(seed: int, profile: Profile) -> Outcome:
    """Runs one fleet. The same seed gives the same outcome, in one process, with the same digest of
    everything that happened."""
    began = time.perf_counter()
    with _without_warnings(), virtual_time() as loop:
        scenario = Scenario(seed, profile)
        with simulated_redis(scenario.network):
            loop.run_until_complete(scenario.run())
        outcome = scenario.outcome()
    outcome.seconds = time.perf_counter() - began
    return outcome
