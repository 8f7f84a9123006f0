"""A large fleet in its first minutes: what grammars cost replicas, requests and Redis.

    python -m bench fleet-cost --replicas 50

Gateways have their own code for grammars, limits and keys, and Valkey runs their commands. Replicas
read messages as a backend does and have its registry, but a compile is only a pause. Time is
virtual, so that a busy machine changes nothing.
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
from typing import Any, cast

from pydantic import SecretStr
from redis.connection import Connection
from redis.exceptions import ResponseError

from tests.long.fleet.gateway import (
    HASHER,
    Gateway,
    Network,
    Node,
    Owners,
    simulated_redis,
    track_tasks,
    virtual_time,
)
from tests.models import ROOT
from tests.support import commands, markdown
from tests.support.servers.fake_backend import INFO
from tests.support.servers.redis_server import RedisServer, redis_server
from toolgate_backend.endpoint.admission import needed_sources
from toolgate_backend.grammars.registry import GrammarRegistry
from toolgate_core import wire
from toolgate_core.chat_shape import body_of, message_in
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.tools import parse_tools
from toolgate_proxy.chat.constraints import Constraints
from toolgate_proxy.chat.preparation import PreparedRequest
from toolgate_proxy.keys.key import Key, Limits, StoredSecret, Terms, now
from toolgate_proxy.keys.limit_kinds import Tokens
from toolgate_proxy.keys.redis_store import RedisStore
from toolgate_proxy.keys.sync import GRACE_SECONDS, POLL_SECONDS
from toolgate_proxy.limits.limiter import LEASE_SECONDS
from toolgate_proxy.request.chat_request import ChatRequest
from toolgate_proxy.request.plan import EnforcementPlan, make_plan

EXAMINED_MS, LOADED_MS = 37.0, 3.2
"""Pauses of a compile in the quarantine, from fork to verdict, and of a load in the workers, as
`bench grammars` measured them."""
SCHEMAS = ROOT / "tests" / "support" / "tool_schemas.json"
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
    requests_per_second: float = 50.0
    seconds: float = 60.0
    """Of each kind of minute."""


@dataclass
class Counted:
    """What happened in one minute."""

    counts: Counter[str] = field(default_factory=Counter)
    tools: set[str] = field(default_factory=set)
    """Hashes of the tools of its requests."""
    exchanges: Counter[str] = field(default_factory=Counter)
    """Exchanges with Redis, each of one or more commands, by what for: `grammars`, `limits` or
    `keys`."""
    seconds: float = 0.0

    def for_each_request(self, name: str) -> float:
        return self.counts[name] / max(self.counts["requests"], 1)


class Replica:
    """The backend's registry. It is also the quarantine and the workers, which only wait."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.counted = Counted()
        self._registry = GrammarRegistry(
            self,  # type: ignore[arg-type]
            self,
            dialect=INFO.dialect,
            tokenizer=INFO.tokenizer,
            grammar_format=INFO.grammar_format,
            capacity=4_096,
            blob_cache_bytes=0,
        )

    async def respond(self, body: bytes) -> wire.StartEvent:
        """Return the begin of the response."""
        message = wire.GenerateRequest.model_validate(message_in(json.loads(body)))
        async with self._registry.held(needed_sources(message)) as verdicts:
            asked = tuple(verdicts[each.key] for each in message.grammars if each.report)
        return wire.StartEvent(
            prompt_tokens=450, reasoning_open=False, verdicts=asked, replica=self.name
        )

    async def examine(self, source: wire.GrammarSource) -> wire.GrammarVerdict:
        self.counted.counts["compiles"] += 1
        return await _verdict(source, EXAMINED_MS)

    async def load(self, source: wire.GrammarSource) -> wire.GrammarVerdict:
        self.counted.counts["loads"] += 1
        return await _verdict(source, LOADED_MS)

    async def release(self, wanted: Sequence[str]) -> None:
        self.counted.counts["evicted"] += len(wanted)


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
        return cls(request, make_plan(request, DIALECTS["qwen3"]))


class Valkey(Network):
    """Connections of gateways to a real Valkey. It runs a command at once, in virtual time."""

    def __init__(self, redis: RedisServer, rng: random.Random) -> None:
        super().__init__(cast(Any, self), rng)
        self.exchanges = Counter[str]()
        port = redis.client.connection_pool.connection_kwargs["port"]
        connection: Any = Connection  # without types
        self._connection = connection(host="127.0.0.1", port=port, protocol=2)

    async def exchange(self, node: Node, commands: Sequence[Sequence[Any]]) -> list[Any]:
        self.exchanges[PURPOSES.get(commands[0][0], "keys")] += 1
        return await super().exchange(node, commands)

    def execute(self, command: Sequence[Any]) -> Any:
        self._connection.send_command(*command)
        try:
            return self._connection.read_response()
        except ResponseError as error:
            return error


PURPOSES = {"MGET": "grammars", "SET": "grammars", "EVALSHA": "limits", "EVAL": "limits"}
"""By the first command of an exchange."""


class Sender(Gateway):
    async def send(self, sent: ChatRequest, plan: EnforcementPlan, at: Replica) -> Counter[str]:
        """Send one request. Return what it counts."""
        key = self.keys.find(API_KEY)
        reserved, used = Tokens(500, 100), Tokens(450, 70)
        lease = await self.limiter.admit(key, sent.request_id, reserved, lambda: used)
        needed = await self._grammars.needed(plan.grammars, INFO, owner=key.id)
        prepared = PreparedRequest(sent, INFO, DIALECTS["qwen3"], plan)
        message = Constraints(prepared, needed, None, open_objects=False).message(None)
        message = await self._grammars.with_records(message)
        body = body_of("generate", message, "tiny")
        bare = message.model_copy(update={"grammars": (), "enforcement": None})
        counts = Counter(
            requests=1,
            new=len(needed.unknown),
            records=sum(each.examined is not None for each in message.grammars),
            bytes=len(body),
            enforcement=len(body) - len(body_of("generate", bare, "tiny")),
        )
        start = await at.respond(body)
        self.replicas.note(start)
        counts["unreported"] = len(needed.unknown - {each.key for each in start.verdicts})
        self._grammars.learn(start.verdicts, plan.grammars, INFO)
        await lease.settle()
        return counts


class Fleet:
    def __init__(self, size: Size, network: Valkey, owners: Owners, seed: int) -> None:
        self.size = size
        self._network, self._owners = network, owners
        self._rng = random.Random(seed)
        self._replicas = list[Replica]()
        self._gateways = list[Sender]()
        self._turns, self._names = itertools.count(), itertools.count()
        tools, of_each = [*definitions(size.tools)], size.tools_per_request
        parts = (tools[at : at + of_each] for at in range(0, len(tools), of_each))
        self._applications = [*map(Application.of, parts)]
        self._popularity = [1 / rank for rank in range(1, len(self._applications) + 1)]

    async def add_key(self) -> None:
        self._network.node("admin")
        stored = StoredSecret(hash=HASHER.hash(API_KEY), hint="sk")
        terms = Terms(limits=Limits(rpm=10**7, tpm=10**11))
        name = "key_0123456789abcdef"
        key = Key(id=name, alias="fleet", terms=terms, secrets=(stored,), created=now())
        await RedisStore(SecretStr("redis://admin:6379"), HASHER).put(key)

    async def deploy_gateways(self) -> None:
        await self.stop_gateways()
        for _ in range(self.size.gateways):
            node = self._network.node(f"gateway-{next(self._names)}")
            gateway = Sender(
                node,
                cast(Any, None),
                self._owners[node.name],
                poll=POLL_SECONDS,
                grace=GRACE_SECONDS,
                lease=LEASE_SECONDS,
            )
            await gateway.spawn(gateway.start())
            self._gateways.append(gateway)

    async def stop_gateways(self) -> None:
        while self._gateways:
            await self._gateways.pop().kill()

    def deploy_replicas(self) -> None:
        self._replicas = [Replica(f"r{next(self._names)}") for _ in range(self.size.replicas)]

    async def minute(self, *, by_session: bool = False, requests: bool = True) -> Counted:
        """Let conversations begin at random times, for the time of the size. `by_session`: all
        turns of a conversation go to one replica, otherwise to all replicas in turn."""
        counted, began = Counted(), time.monotonic()
        for replica in self._replicas:
            replica.counted = counted
        self._network.exchanges = counted.exchanges
        end = began + self.size.seconds
        rate = self.size.requests_per_second / self.size.turns
        async with asyncio.TaskGroup() as group:
            while requests and time.monotonic() < end:
                group.create_task(self._conversation(counted, by_session, end))
                await asyncio.sleep(self._rng.expovariate(rate))
            await asyncio.sleep(end - time.monotonic())
        counted.seconds = time.monotonic() - began
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
            sending = gateway.spawn(gateway.send(request, application.plan, self._replicas[at]))
            counted.counts += await sending
            counted.tools |= {tool.hash for tool in request.tools}
            await asyncio.sleep(rng.uniform(0.5, 1.5) * self.size.pause)
            if time.monotonic() > end:
                return


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


async def minutes(fleet: Fleet) -> dict[str, Counted]:
    """Return what was counted in each kind of minute."""
    await fleet.add_key()
    await fleet.deploy_gateways()
    fleet.deploy_replicas()
    found = {"everything is new": await fleet.minute()}
    await fleet.deploy_gateways()
    found["new gateways"] = await fleet.minute()
    fleet.deploy_replicas()
    found["new replicas"] = await fleet.minute()
    fleet.deploy_replicas()
    found["new replicas, by session"] = await fleet.minute(by_session=True)
    found["no requests"] = await fleet.minute(requests=False)
    await fleet.stop_gateways()
    return found


def simulate(size: Size, seed: int = 1) -> dict[str, Counted]:
    """Run a fleet of this size."""
    with redis_server() as redis, virtual_time() as loop:
        network = Valkey(redis, random.Random(f"{seed} network"))
        with simulated_redis(network):
            fleet = Fleet(size, network, track_tasks(loop), seed)
            return loop.run_until_complete(minutes(fleet))


COLUMNS: dict[str, Callable[[Counted], str]] = {
    "requests": lambda each: f"{each.counts['requests']:,}",
    "tools": lambda each: f"{len(each.tools):,}",
    "compiles per tool": lambda each: f"{each.counts['compiles'] / max(len(each.tools), 1):.2f}",
    "loads per tool": lambda each: f"{each.counts['loads'] / max(len(each.tools), 1):.2f}",
    "bytes per request": lambda each: f"{each.for_each_request('bytes'):,.0f}",
    "of which enforcement": lambda each: f"{each.for_each_request('enforcement'):,.0f}",
    "Redis exchanges/s": lambda each: f"{each.exchanges.total() / each.seconds:,.1f}",
    **{
        f"for {purpose}": lambda each, purpose=purpose: (  # type: ignore[misc]
            f"{each.exchanges[purpose] / each.seconds:,.1f}"
        )
        for purpose in ("grammars", "limits", "keys")
    },
}


def report(size: Size, found: dict[str, Counted]) -> int:
    """Print the table. Return the exit status: 1 if a request with a new tool got no verdict."""
    print(f"{size.replicas} replicas, {size.gateways} gateways, {size.tools:,} tools, ", end="")
    print(f"{size.requests_per_second:g} requests/s, {size.seconds:g} s for each row\n")
    rows = ((name, *(show(each) for show in COLUMNS.values())) for name, each in found.items())
    print(markdown.table(["minute", *COLUMNS], rows), "\n")
    for name, each in found.items():
        compiles, loads = each.counts["compiles"], each.counts["loads"]
        seconds = (compiles * EXAMINED_MS + loads * LOADED_MS) / 1000 / size.replicas
        print(f"{name}: {seconds:.2f} s of compiling per replica")
    unreported = sum(each.counts["unreported"] for each in found.values())
    print(f"Grammars without a verdict: {unreported}")
    return 1 if unreported else 0


def main() -> int:
    parser = commands.parser_of(__doc__)
    parser.add_argument("--replicas", type=int, default=50)
    parser.add_argument("--gateways", type=int, default=20)
    parser.add_argument("--tools", type=int, default=5_000)
    options = parser.parse_args()
    size = Size(options.replicas, options.gateways, options.tools)
    return report(size, simulate(size))
