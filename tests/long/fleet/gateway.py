"""The connections of the fleet to Redis, with faults, as a client of redis-py.

A message that has left is executed even if its sender has given up. So a time-out may mean that
Redis has not received a command, or that only the reply was lost.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
import selectors
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from unittest.mock import patch

from pydantic import SecretStr
from redis.exceptions import ConnectionError

from tests.long.fleet.redis_server import RedisServer
from tests.support.servers.fake_backend import INFO
from toolgate_core import wire
from toolgate_core.errors import InvalidRequest
from toolgate_core.tools import Tool
from toolgate_proxy.backend_client.replicas import Replicas
from toolgate_proxy.grammars.service import GrammarService, grammar_key
from toolgate_proxy.grammars.verdicts import RedisCache
from toolgate_proxy.keys.key import Hasher, now
from toolgate_proxy.keys.sync import KeyCache, KeySync
from toolgate_proxy.limits.limiter import Limiter
from toolgate_proxy.settings import Settings

Link = Literal["up", "refused", "silent", "one-way"]
"""`refused`: connections are refused. `silent`: nothing arrives. `one-way`: commands arrive, but no
replies."""


@dataclass
class Node:
    """One process: a gateway, or the administrator's command line."""

    name: str
    link: Link = "up"
    alive: bool = True
    running: asyncio.Event = field(default_factory=asyncio.Event)
    """Not set while the process is stopped, as by SIGSTOP."""

    def __post_init__(self) -> None:
        self.running.set()


class Network:
    def __init__(self, server: RedisServer, rng: random.Random) -> None:
        self.server = server
        self.nodes: dict[str, Node] = {}
        self.redis_hangs = False
        self._rng = rng

    def node(self, name: str) -> Node:
        self.nodes[name] = Node(name)
        return self.nodes[name]

    async def exchange(self, node: Node, commands: Sequence[Sequence[Any]]) -> list[Any]:
        """The replies. Waits forever if there are none."""
        await node.running.wait()
        if node.link == "refused":
            raise ConnectionError("refused")
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[list[Any]] = loop.create_future()

        def arrive() -> None:
            if self.redis_hangs or node.link == "silent" or not node.alive:
                return
            replies = [self.server.execute(command) for command in commands]
            if node.link == "up":
                loop.call_later(self._latency(), _answer(reply, replies))

        loop.call_later(self._latency(), arrive)
        replies = await reply
        await node.running.wait()
        return replies

    def _latency(self) -> float:
        """Seconds. Some messages are late, so that others overtake them, but within time-outs."""
        late = self._rng.random() < 0.02
        return self._rng.uniform(0.005, 0.02) if late else self._rng.uniform(0.0001, 0.002)


def _answer(reply: asyncio.Future[list[Any]], replies: list[Any]) -> Any:
    return lambda: None if reply.done() else reply.set_result(replies)


class Client:
    """What gateways use of `redis.asyncio.Redis`. The host of its URL names the node."""

    network: Network

    def __init__(self, node: str) -> None:
        self._node = self.network.nodes[node]
        self.connection_pool = self

    async def disconnect(self) -> None:
        return

    async def aclose(self) -> None:
        return

    def pipeline(self, transaction: bool = True) -> Pipeline:
        return Pipeline(self._node, self.network)

    async def execute_command(self, *command: Any) -> Any:
        (reply,) = await self.network.exchange(self._node, [command])
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def get(self, key: str) -> Any:
        return await self.execute_command("GET", key)

    async def hget(self, key: str, field: str) -> Any:
        return await self.execute_command("HGET", key, field)

    async def hgetall(self, key: str) -> dict[bytes, bytes]:
        flat = await self.execute_command("HGETALL", key)
        return dict(zip(flat[::2], flat[1::2], strict=True))

    async def eval(self, *arguments: Any) -> Any:
        return await self.execute_command("EVAL", *arguments)


class Pipeline:
    def __init__(self, node: Node, network: Network) -> None:
        self._node, self._network = node, network
        self._commands: list[tuple[Any, ...]] = []

    def execute_command(self, *command: Any) -> None:
        self._commands.append(command)

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        return await self._network.exchange(self._node, self._commands)


START = 1_800_000_000.0
"""Seconds since 1970 when a simulation begins."""


class Deadlock(Exception):
    """All tasks wait, and nothing will wake one."""


class _Selector(selectors.SelectSelector):
    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Deadlock("All tasks of the simulation wait for each other.")
        self.loop.seconds += max(timeout, 0.0)
        return []  # no descriptor is in use


class VirtualLoop(asyncio.SelectorEventLoop):
    """`seconds`: since the beginning of the simulation."""

    def __init__(self) -> None:
        self.seconds = 0.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.seconds


@contextmanager
def virtual_time() -> Iterator[VirtualLoop]:
    """A loop, and `time` as its clock."""
    loop = VirtualLoop()
    clocks: dict[str, Any] = {
        "time": lambda: START + loop.seconds,
        "time_ns": lambda: round((START + loop.seconds) * 1e9),
        "monotonic": lambda: loop.seconds,
    }
    asyncio.set_event_loop(loop)
    try:
        with patch.multiple(time, **clocks):
            yield loop
    finally:
        asyncio.set_event_loop(None)
        loop.close()


SECRET = SecretStr("a-secret-of-the-simulated-fleet")
HASHER = Hasher(SECRET)
_owner: contextvars.ContextVar[str | None] = contextvars.ContextVar("owner", default=None)
"""The gateway whose code runs. Tasks inherit it."""


@contextmanager
def simulated_redis(network: Network) -> Iterator[None]:
    """`toolgate_proxy` connects to the simulated network."""

    class Simulated(Client):
        pass

    Simulated.network = network

    def connected(connection_pool: Any) -> Client:
        return Simulated(connection_pool.connection_kwargs["host"])

    class Store:
        @staticmethod
        def from_url(url: str, **_: Any) -> Client:
            return Simulated(url.split("//")[1].split(":")[0])

    with (
        patch("toolgate_proxy.redis_client.Redis", connected),
        patch("toolgate_proxy.keys.redis_store.Redis", Store),
    ):
        yield


class Compiler:
    """The backend, as far as grammars are concerned."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.compiles: Counter[str] = Counter()
        self.begun: dict[str, list[float]] = {}
        """When each request with a key arrived, in seconds since the simulation began. Its grammars
        are compiled one after another."""

    async def compiled(self, tools: Sequence[Tool]) -> list[wire.GrammarVerdict]:
        """The verdicts with which the response to a request begins."""
        began = time.monotonic()
        for tool in tools:
            key = grammar_key(tool, INFO)
            self.compiles[key] += 1
            self.begun.setdefault(key, []).append(began)
            slow = self._rng.random() < 0.1
            await asyncio.sleep(self._rng.uniform(1, 5) if slow else 0.02)
        return [*map(verdict_of, tools)]


def tool_of(name: str) -> Tool:
    return Tool(name, {"type": "object"}, name, {})


def verdict_of(tool: Tool) -> wire.GrammarVerdict:
    """The right verdict. Some schemas are refused."""
    key, name = grammar_key(tool, INFO), tool.name
    if name.startswith("bad"):
        return wire.GrammarVerdict(
            key=key, status="refused", reason=name, code="schema_not_enforceable"
        )
    return wire.GrammarVerdict(key=key, status="ready", engine=name, least_tokens=len(name))


@dataclass(frozen=True)
class Found:
    """What a gateway learns of the grammars of a request."""

    refused: frozenset[str]
    """The names of the tools whose schemas are refused."""
    verdicts: dict[str, wire.GrammarVerdict]
    """Those of Redis and of the backend, by key."""


class Gateway:
    """Create it in the loop. `poll`: interval at which it reads changes of keys, in seconds."""

    def __init__(
        self,
        node: Node,
        compiler: Compiler,
        tasks: set[asyncio.Task[Any]],
        *,
        poll: float,
        grace: float,
        lease: float,
    ) -> None:
        self.node = node
        self.settings = settings = Settings(
            redis_url=SecretStr(f"redis://{node.name}:6379"),
            key_secret=SECRET,
            fleet_secret=SECRET,
            limits_without_redis="closed",
        )
        self._context = contextvars.copy_context()
        self._context.run(_owner.set, node.name)
        self.tasks = tasks
        self.keys = KeyCache(HASHER, grace, now, time.monotonic)
        self.sync = KeySync(self.keys, HASHER, settings, poll)
        self.limiter = Limiter(settings, lease)
        cache = RedisCache.from_settings(settings)
        assert cache is not None
        self.cache = cache
        self._compiler = compiler
        self.replicas = Replicas("http://engines")
        self._grammars = GrammarService(self, cache)  # type: ignore[arg-type]
        self.retired: set[str] = set()
        """Ids of keys that this process knows to be revoked."""
        self.running: Counter[str] = Counter()
        """Requests in flight, by key id."""

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        """A task of this gateway, which ends with it."""
        return asyncio.get_running_loop().create_task(work, context=self._context.copy())

    async def start(self) -> None:
        await self.limiter.started()
        await self.sync.started()

    async def request(self, tools: Sequence[Tool]) -> Found:
        refused = dict[str, InvalidRequest]()
        needed = await self._grammars.needed(tools, INFO, on_invalid=refused.__setitem__)
        verdicts = dict(needed.records)
        if new := [tool for tool in tools if needed.keys.get(tool.hash) in needed.unknown]:
            found = await self._compiler.compiled(new)
            self._grammars.learn(found, new, INFO)
            verdicts |= {each.key: each for each in found}
            needed = await self._grammars.needed(tools, INFO, on_invalid=refused.__setitem__)
        self._grammars.count(needed)
        return Found(frozenset(refused), verdicts)

    async def kill(self) -> None:
        """Nothing it does from now on has an effect."""
        self.node.alive = False
        self.node.running.set()
        while pending := [task for task in self.tasks if not task.done()]:
            for task in pending:
                task.cancel()
            await asyncio.wait(pending, timeout=1.0)


Owners = dict[str, set[asyncio.Task[Any]]]
"""The tasks of each gateway, by its name."""


def track_tasks(loop: asyncio.AbstractEventLoop) -> Owners:
    """Each task belongs to the gateway whose code created it."""
    owners: Owners = defaultdict(set)

    def factory(loop: Any, work: Any, context: Any = None, **more: Any) -> Any:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, context=context, **more)
        owner = (context or contextvars.copy_context()).get(_owner)
        if owner is not None:
            tasks = owners[owner]
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        return task

    loop.set_task_factory(factory)
    return owners
