"""The connections of the fleet to Redis, with faults, as a client of redis-py.

A message that has left is executed even if its sender has given up. So a time-out may mean that
Redis has not received a command, or that only the reply was lost.
"""

from __future__ import annotations

import asyncio
import random
import selectors
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from unittest.mock import patch

from redis.exceptions import ConnectionError

from tests.long.fleet.redis_server import RedisServer

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
