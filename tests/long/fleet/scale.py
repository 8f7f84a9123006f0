"""A large fleet in its first minutes: what grammars cost replicas, requests and Redis.

Gateways have their own code for grammars, limits and keys, and a real Valkey. Replicas read
messages as a backend does and have its registry, but a compile is only a pause. Nothing listens,
and no model runs. Time is real, so that requests overlap as in a fleet; each kind of minute begins
with what was deployed.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from tests.long.fleet.gateway import HASHER, SECRET
from tests.support import markdown
from tests.support.servers.fake_backend import INFO
from tests.support.servers.redis_server import RedisServer, redis_server
from toolgate_backend.endpoint.needed_grammars import needed_sources
from toolgate_backend.grammars.registry import GrammarRegistry
from toolgate_core import wire
from toolgate_core.chat_request import ChatRequest
from toolgate_core.chat_shape import body_of, message_in
from toolgate_core.dialects.families.hermes import QWEN3
from toolgate_core.plan import EnforcementPlan, make_plan
from toolgate_core.tools import parse_tools
from toolgate_proxy import metrics
from toolgate_proxy.chat.constraints import backend_request
from toolgate_proxy.grammars.redis_cache import RedisCache
from toolgate_proxy.grammars.service import GrammarService
from toolgate_proxy.keys.cache import KeyCache
from toolgate_proxy.keys.key import Key, Limits, StoredSecret, Terms, now
from toolgate_proxy.keys.limit_kinds import Tokens
from toolgate_proxy.keys.redis_store import RedisStore
from toolgate_proxy.keys.sync import GRACE_SECONDS, KeySync
from toolgate_proxy.limits.limiter import Limiter
from toolgate_proxy.settings import Settings

EXAMINED_MS, LOADED_MS = 37.0, 3.2
"""Pauses of a compile in the quarantine, from fork to verdict, and of a load in the workers, as
`bench grammars` measured them."""
SCHEMAS = Path(__file__).parents[2] / "support" / "tool_schemas.json"
API_KEY = "sk-tg-of-the-large-fleet"
SYSTEM = "You are an agent of a customer. " * 30


@dataclass(frozen=True)
class Size:
    replicas: int = 50
    gateways: int = 20
    tools: int = 5_000
    tools_per_request: int = 8
    """Those of one application. Some applications are more popular than others, as 1/rank."""
    turns: int = 4
    """Requests of a conversation."""
    pause: float = 4.0
    """Seconds between two turns."""
    requests_per_second: float = 100.0
    seconds: float = 60.0
    """Of each kind of minute."""


@dataclass
class Counted:
    """What happened in one minute."""

    counts: Counter[str] = field(default_factory=Counter)
    tools: set[str] = field(default_factory=set)
    """Hashes of the tools of its requests."""
    redis: Counter[str] = field(default_factory=Counter)
    """Commands that Valkey ran, by name, with those of scripts, and `exchanges` with gateways."""
    seconds: float = 0.0

    def for_each_request(self, name: str) -> float:
        return self.counts[name] / max(self.counts["requests"], 1)


class Replica:
    """The backend's registry. It is also the quarantine and the workers, which only wait."""

    def __init__(self) -> None:
        self.counted = Counted()
        self._registry = GrammarRegistry(
            _Workers(self),  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            dialect=INFO.dialect,
            tokenizer=INFO.tokenizer,
            grammar_format=INFO.grammar_format,
            capacity=4_096,
            blob_cache_bytes=0,
        )

    async def respond(self, body: bytes) -> tuple[wire.GrammarVerdict, ...]:
        """Return the verdicts with which the response begins."""
        message = wire.GenerateRequest.model_validate(message_in(json.loads(body)))
        async with self._registry.held(needed_sources(message)) as verdicts:
            return tuple(verdicts[each.key] for each in message.grammars if each.report)

    async def examine(self, source: wire.GrammarSource) -> wire.GrammarVerdict:
        self.counted.counts["compiles"] += 1
        return await _verdict(source, EXAMINED_MS)


class _Workers:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    async def load(self, source: wire.GrammarSource) -> wire.GrammarVerdict:
        self._replica.counted.counts["loads"] += 1
        return await _verdict(source, LOADED_MS)

    async def release(self, wanted: Sequence[str]) -> None:
        self._replica.counted.counts["evicted"] += len(wanted)


async def _verdict(source: wire.GrammarSource, milliseconds: float) -> wire.GrammarVerdict:
    await asyncio.sleep(milliseconds / 1000)
    return wire.GrammarVerdict(
        key=source.key,
        status="ready",
        engine="xgrammar",
        compile_ms=LOADED_MS,
        least_tokens=10,
        extra_tokens=5,
    )


@dataclass(frozen=True)
class Application:
    """A client's tools, and what follows from them."""

    request: ChatRequest
    plan: EnforcementPlan

    @classmethod
    def of(cls, definitions: list[dict[str, Any]]) -> Application:
        tools = parse_tools(definitions)
        request = ChatRequest(request_id="", model="tiny", messages=(), tools=tools, stream=True)
        return cls(request, make_plan(request, QWEN3))


class Gateway:
    def __init__(self, url: str) -> None:
        # The counts must not depend on how busy the machine is.
        settings = Settings(
            redis_url=SecretStr(url),
            redis_timeout=10.0,
            key_secret=SECRET,
            fleet_secret=SECRET,
            limits_without_redis="open",
        )
        cache = RedisCache.from_settings(settings)
        assert cache is not None
        self._cache = cache
        self._grammars = GrammarService(None, cache)  # type: ignore[arg-type]
        self._limiter = Limiter(settings)
        self._keys = KeyCache(HASHER, GRACE_SECONDS, now, time.monotonic)
        self._sync = KeySync(self._keys, HASHER, settings)

    async def start(self) -> None:
        await self._limiter.started()
        await self._sync.started()

    async def aclose(self) -> None:
        for each in (self._sync, self._limiter, self._cache):
            await each.aclose()

    async def request(self, sent: ChatRequest, plan: EnforcementPlan, at: Replica) -> Counter[str]:
        """Send one request. Return what it counts."""
        key = self._keys.find(API_KEY)
        tokens = Tokens(500, 100)
        used = Tokens(450, 70)
        admission = await self._limiter.admit(key, sent.request_id, tokens, lambda: used)
        params = {tool.name: tool.param for tool in sent.tools}
        needed = await self._grammars.needed(plan.grammars, params, INFO, owner=key.id)
        message = backend_request(sent, plan, needed, None)
        body = body_of("generate", message, "tiny")
        bare = message.model_copy(update={"grammars": (), "enforcement": None})
        counts = Counter(
            requests=1,
            new=len(needed.unknown),
            records=len(needed.records),
            bytes=len(body),
            added=len(body) - len(body_of("generate", bare, "tiny")),
        )
        verdicts = await at.respond(body)
        counts["unreported"] = len(needed.unknown - {each.key for each in verdicts})
        self._grammars.learn(verdicts, plan.grammars, INFO)
        self._grammars.count(needed)
        await self._limiter.reservations.close(admission.reservation)
        return counts


class Fleet:
    def __init__(self, size: Size, redis: RedisServer, seed: int) -> None:
        self.size = size
        self._redis = redis
        self._rng = random.Random(seed)
        self._replicas = list[Replica]()
        self._gateways = list[Gateway]()
        self._turns = itertools.count()
        tools, of_each = [*definitions(size.tools)], size.tools_per_request
        parts = (tools[at : at + of_each] for at in range(0, len(tools), of_each))
        self._applications = [*map(Application.of, parts)]
        self._popularity = [1 / rank for rank in range(1, len(self._applications) + 1)]

    async def add_key(self) -> None:
        stored = StoredSecret(hash=HASHER.hash(API_KEY), hint="sk")
        terms = Terms(limits=Limits(rpm=10**7, tpm=10**11))
        key = Key(
            id="key_0123456789abcdef", alias="a", terms=terms, secrets=(stored,), created=now()
        )
        store = RedisStore(SecretStr(self._redis.url), HASHER)
        await store.put(key)
        await store.aclose()

    async def deploy_gateways(self) -> None:
        await self.aclose()
        self._gateways = [Gateway(self._redis.url) for _ in range(self.size.gateways)]
        await asyncio.gather(*(each.start() for each in self._gateways))

    def deploy_replicas(self) -> None:
        self._replicas = [Replica() for _ in range(self.size.replicas)]

    async def aclose(self) -> None:
        await asyncio.gather(*(each.aclose() for each in self._gateways))

    async def minute(self, *, by_session: bool, requests: bool = True) -> Counted:
        """Let conversations begin at random times, for the time of the size. `by_session`: all
        turns of a conversation go to one replica, otherwise to all replicas in turn."""
        counted, began = Counted(), time.monotonic()
        for replica in self._replicas:
            replica.counted = counted
        before = self._redis_counts()
        end = began + (self.size.seconds if requests else self.size.seconds / 6)
        rate = self.size.requests_per_second / self.size.turns
        async with asyncio.TaskGroup() as group:
            while requests and time.monotonic() < end:
                group.create_task(self._conversation(counted, by_session, end))
                await asyncio.sleep(self._rng.expovariate(rate))
            await asyncio.sleep(end - time.monotonic())
        counted.redis, counted.seconds = self._redis_counts() - before, time.monotonic() - began
        return counted

    async def _conversation(self, counted: Counted, by_session: bool, end: float) -> None:
        rng = self._rng
        (application,) = rng.choices(self._applications, self._popularity)
        home = rng.randrange(self.size.replicas)
        messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}]
        for _ in range(self.size.turns):
            messages = [*messages, {"role": "user", "content": "And the weather in Rome? " * 8}]
            at = home if by_session else next(self._turns) % self.size.replicas
            name = f"chatcmpl-{rng.getrandbits(64):x}"
            request = replace(application.request, request_id=name, messages=(*messages,))
            gateway = rng.choice(self._gateways)
            counted.counts += await gateway.request(request, application.plan, self._replicas[at])
            counted.tools |= {tool.hash for tool in request.tools}
            if time.monotonic() + self.size.pause > end:
                return
            await asyncio.sleep(rng.uniform(0.5, 1.5) * self.size.pause)

    def _redis_counts(self) -> Counter[str]:
        stats = self._redis.client.info("commandstats")
        counts = Counter(
            {name.removeprefix("cmdstat_"): each["calls"] for name, each in stats.items()}
        )
        counts["info"] = 0  # its own
        (samples,) = (each.samples for each in metrics.REDIS_SECONDS.collect())
        [counts["exchanges"]] = (int(e.value) for e in samples if e.name.endswith("_count"))
        return counts


def definitions(count: int) -> Iterator[dict[str, Any]]:
    """Tools of agents under names that make each of them another grammar."""
    tools = json.loads(SCHEMAS.read_text())
    for number, tool in enumerate(itertools.islice(itertools.cycle(tools), count)):
        function = {
            "name": f"{tool['name']}_{number}",
            "description": f"The tool {tool['name']} of a {tool['source']}.",
            "parameters": tool["schema"],
        }
        yield {"type": "function", "function": function}


async def run(size: Size, redis: RedisServer, seed: int = 1) -> dict[str, Counted]:
    """Return what was counted in each kind of minute."""
    fleet = Fleet(size, redis, seed)
    await fleet.add_key()
    found = dict[str, Counted]()
    await fleet.deploy_gateways()
    fleet.deploy_replicas()
    found["everything is new"] = await fleet.minute(by_session=False)
    await fleet.deploy_gateways()
    found["new gateways"] = await fleet.minute(by_session=False)
    fleet.deploy_replicas()
    found["new replicas"] = await fleet.minute(by_session=False)
    fleet.deploy_replicas()
    found["new replicas, by session"] = await fleet.minute(by_session=True)
    found["no requests"] = await fleet.minute(by_session=False, requests=False)
    await fleet.aclose()
    return found


COLUMNS: dict[str, Callable[[Counted], str]] = {
    "requests": lambda each: f"{each.counts['requests']:,}",
    "tools": lambda each: f"{len(each.tools):,}",
    "compiles": lambda each: f"{each.counts['compiles']:,}",
    "compiles per tool": lambda each: f"{each.counts['compiles'] / max(len(each.tools), 1):.2f}",
    "loads": lambda each: f"{each.counts['loads']:,}",
    "bytes per request": lambda each: f"{each.for_each_request('bytes'):,.0f}",
    "of which enforcement": lambda each: f"{each.for_each_request('added'):,.0f}",
    "Redis exchanges/s": lambda each: f"{each.redis['exchanges'] / each.seconds:,.0f}",
    "of which grammars": lambda each: f"{_for_grammars(each) / each.seconds:,.1f}",
}


def _for_grammars(each: Counted) -> int:
    return each.redis["mget"] + each.redis["set"]


def report(size: Size, found: dict[str, Counted]) -> int:
    """Print the table. Return the exit status: 1 if a request with a new tool got no verdict."""
    print(f"{size.replicas} replicas, {size.gateways} gateways, {size.tools:,} tools, ", end="")
    print(f"{size.requests_per_second:g} requests/s, {size.seconds:g} s for each row\n")
    rows = ((name, *(show(each) for show in COLUMNS.values())) for name, each in found.items())
    print(markdown.table(["minute", *COLUMNS], rows))
    for name, each in found.items():
        compiles, loads = each.counts["compiles"], each.counts["loads"]
        seconds = (compiles * EXAMINED_MS + loads * LOADED_MS) / 1000 / size.replicas
        commands = ", ".join(f"{command} {count:,}" for command, count in each.redis.most_common(8))
        print(f"{name}, {each.seconds:.0f} s: {seconds:.2f} s of compiling per replica; {commands}")
    unreported = sum(each.counts["unreported"] for each in found.values())
    print(f"Grammars without a verdict: {unreported}")
    return 1 if unreported else 0


def main(size: Size) -> int:
    """Run a fleet of this size, and print what it costs. Return the exit status."""
    with redis_server() as redis:
        return report(size, asyncio.run(run(size, redis)))
