"""A gateway of the simulated fleet: the classes of `toolgate_proxy`, without HTTP and LiteLLM."""

from __future__ import annotations

import asyncio
import contextvars
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from pydantic import SecretStr

from tests.long.fleet.network import Client, Network, Node
from toolgate_core import wire
from toolgate_proxy.grammars.loader import GrammarResult, Loader
from toolgate_proxy.grammars.redis_cache import RedisCache
from toolgate_proxy.keys.cache import KeyCache
from toolgate_proxy.keys.key import Hasher, now
from toolgate_proxy.keys.sync import KeySync
from toolgate_proxy.limits.limiter import Limiter
from toolgate_proxy.settings import Settings

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
        """When each message with a key arrived, in seconds since the simulation began. Its grammars
        are compiled one after another."""

    async def load_grammars(
        self, sources: Sequence[wire.GrammarSource], *, want_blobs: bool = False
    ) -> list[wire.GrammarVerdict]:
        verdicts, began = [], time.monotonic()
        for source in sources:
            if not source.examined:
                self.compiles[source.key] += 1
                self.begun.setdefault(source.key, []).append(began)
                slow = self._rng.random() < 0.1
                await asyncio.sleep(self._rng.uniform(1, 5) if slow else 0.02)
            verdicts.append(verdict_of(source))
        return verdicts


def verdict_of(source: wire.GrammarSource) -> wire.GrammarVerdict:
    """The right verdict. Some schemas are refused."""
    if source.name.startswith("bad"):
        return wire.GrammarVerdict(
            key=source.key, status="refused", reason=source.name, code="schema_not_enforceable"
        )
    return wire.GrammarVerdict(
        key=source.key, status="ready", engine=source.name, least_tokens=len(source.name)
    )


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
        self._loader = Loader(compiler, cache, 20.0)  # type: ignore[arg-type]
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

    async def load(self, sources: Sequence[wire.GrammarSource]) -> dict[str, GrammarResult]:
        return await self._loader.load(sources)

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
