"""A Redis client for the whole process, with a circuit breaker.

It does not raise errors: if Redis does not respond, the result is `None`. The first failure opens
the breaker, and commands return `None` at once until a background probe succeeds. So if Redis
hangs, the requests of that moment wait for one time-out, and later requests do not wait.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from importlib import resources

import redis.exceptions
from prometheus_client import Gauge
from pydantic import SecretStr
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, NoScriptError, RedisError

from . import metrics
from .background import within

logger = logging.getLogger(__name__)

Argument = str | bytes | int | float
Command = tuple[Argument, ...]

ADMISSION_TIMEOUT = 0.3
"""Seconds for a command that reads keys or counts limits. After it, Redis counts as down, and what
happens then is the setting of each. A request that waits longer is worse than a refused one."""
MAX_CONNECTIONS = 32
FIRST_PROBE = 0.1
MAX_PAUSE = 2.0
"""Most seconds between the probes of a server that does not respond."""
PATIENT_TIMEOUT = 1.0
"""Least time-out, in seconds, of commands that no request waits for, on a busy machine."""


class SharedRedis:
    """Any server with Redis' protocol. `timeout`: seconds for one exchange; `consequence`: for the
    log, a sentence on what happens while Redis does not respond, without its full stop."""

    def __init__(
        self,
        url: SecretStr,
        timeout: float,
        consequence: str = "Each gateway process caches grammars on its own until it responds",
        breaker: Gauge = metrics.GRAMMARS_BREAKER,
    ) -> None:
        self._timeout = timeout
        self._patience = max(timeout, PATIENT_TIMEOUT)
        self._consequence = consequence
        self._breaker = breaker
        pool = BlockingConnectionPool.from_url(
            url.get_secret_value(),
            max_connections=MAX_CONNECTIONS,
            timeout=timeout,
            # Longer than `within`, which distinguishes a slow server from a busy process.
            socket_connect_timeout=2 * self._patience,
            # `within` bounds each exchange. With a time-out of its own, the client would create a
            # task for each write, 14 % of the processor time of a request with limits.
            socket_timeout=None,
            # The server may have closed an idle connection of the pool.
            retry=Retry(NoBackoff(), 1, supported_errors=(ConnectionError,)),
        )
        self._redis = Redis(connection_pool=pool)
        self._probing: asyncio.Task[None] | None = None
        self.has_responded = False
        """Whether the server has responded since this client was created."""

    @property
    def available(self) -> bool:
        return self._probing is None

    async def run(
        self, commands: Sequence[Command], *, patient: bool = False
    ) -> list[object] | None:
        """Return the replies of a pipeline; None if Redis did not respond. The reply to a refused
        command (OOM, LOADING …) is its error. `patient`: no request waits for the result."""
        if not self.available:
            return None
        pipeline = self._redis.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        seconds = self._patience if patient else self._timeout
        began = time.monotonic()
        try:
            replies: list[object] = await within(seconds, pipeline.execute(raise_on_error=False))
        except (RedisError, OSError, TimeoutError) as error:
            self._failed(error)
            return None
        finally:
            metrics.REDIS_SECONDS.observe(time.monotonic() - began)
        self.has_responded = True
        for reply in replies:
            if isinstance(reply, Exception):
                metrics.REDIS_ERRORS.labels("refused").inc()
        return replies

    async def connected(self) -> None:
        """Wait until Redis responds."""
        self._open_breaker()
        if self._probing is not None:
            await asyncio.shield(self._probing)

    async def aclose(self) -> None:
        if self._probing is not None:
            self._probing.cancel()
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()

    def _failed(self, error: Exception) -> None:
        """Log the error's type only: its message may contain the address or the password."""
        timed_out = isinstance(error, TimeoutError | redis.exceptions.TimeoutError)
        kind = "timeout" if timed_out else "connection"
        metrics.REDIS_ERRORS.labels(kind).inc()
        if self.available:
            logger.warning(
                "Redis does not respond (%s). %s.", type(error).__name__, self._consequence
            )
        self._open_breaker()

    def _open_breaker(self) -> None:
        if self._probing is None:
            self._breaker.set(1)
            self._probing = asyncio.create_task(self._probe())

    async def _probe(self) -> None:
        pause = FIRST_PROBE
        while True:
            try:
                await within(self._patience, self._redis.execute_command("PING"))  # type: ignore[no-untyped-call]
                break
            except (RedisError, OSError, TimeoutError):
                await asyncio.sleep(pause)
                pause = min(pause * 2, MAX_PAUSE)
        self.has_responded = True
        self._probing = None
        self._breaker.set(0)


class RedisBatch:
    """Batches commands of concurrent requests: commands that arrive during an exchange with Redis
    are sent together in the next one.

    A hundred concurrent requests need two or three exchanges over one connection, instead of a
    hundred over as many connections, and none of them waits for a connection.
    """

    def __init__(self, redis: SharedRedis) -> None:
        self._redis = redis
        self._waiting: list[tuple[Command, asyncio.Future[object]]] = []
        self._sending: asyncio.Task[None] | None = None

    async def run(self, command: Command) -> object:
        """Return the reply; an exception if Redis refused; None if Redis did not respond."""
        reply: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._waiting.append((command, reply))
        if self._sending is None:
            self._sending = asyncio.create_task(self._send())
        return await reply

    async def _send(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                replies = await self._redis.run([command for command, _ in batch])
                for at, (_, reply) in enumerate(batch):
                    if not reply.done():  # the request may have been cancelled
                        reply.set_result(None if replies is None else replies[at])
        finally:
            self._sending = None


Run = Callable[[Command], Awaitable[object]]
"""Returns the reply to a command; an exception if Redis refused it; None without a response."""


class Script:
    """A Lua script, which Redis runs atomically: the file `name` of a package."""

    def __init__(self, package: str, name: str) -> None:
        self._text = resources.files(package).joinpath(name).read_text()
        self._sha = hashlib.sha1(self._text.encode(), usedforsecurity=False).hexdigest()

    async def run(self, run: Run, keys: Sequence[str], *arguments: Argument) -> object:
        """Return the result, as `run` does. Redis gets the text only if it lacks it."""
        rest = (len(keys), *keys, *arguments)
        reply = await run(("EVALSHA", self._sha, *rest))
        if isinstance(reply, NoScriptError):
            reply = await run(("EVAL", self._text, *rest))
        return reply
