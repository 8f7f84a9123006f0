"""One Redis for the process, whose failures cost a request next to nothing.

Nothing here raises for Redis' sake: no answer is `None`. After the first failure nobody asks any
more (the breaker is open) until a probe in the background has had an answer, so a server that hangs
costs the requests that met it one time-out, and those after them nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any

import redis.exceptions
from prometheus_client import Gauge
from pydantic import SecretStr
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, RedisError

from . import metrics

logger = logging.getLogger(__name__)

Argument = str | bytes | int | float
Command = tuple[Argument, ...]

MAX_CONNECTIONS = 32
FIRST_PROBE = 0.1
LONGEST_PAUSE = 2.0
"""Seconds between the probes of a server that does not answer."""
PATIENT_TIMEOUT = 1.0
"""Seconds, at least, for what no request waits for: long enough to open a connection on a busy
machine."""

STEPS = 10
"""Parts of a time-out: so many turns of the event loop it takes at least."""
TURNS_TO_READ = 5
"""Turns of the event loop in which an answer that has arrived becomes a result."""


class SharedRedis:
    """Any server that speaks Redis' protocol, by its URL. `timeout`: seconds for one exchange;
    `meanwhile`: what the log says is done while it does not answer."""

    def __init__(
        self,
        url: SecretStr,
        timeout: float,
        meanwhile: str = "grammars are kept per process until it does",
        breaker: Gauge = metrics.BREAKER,
    ) -> None:
        self._timeout = timeout
        self._patience = max(timeout, PATIENT_TIMEOUT)
        self._meanwhile = meanwhile
        self._breaker = breaker
        pool = BlockingConnectionPool.from_url(
            url.get_secret_value(),
            max_connections=MAX_CONNECTIONS,
            timeout=timeout,
            # Later than `_within`, which alone can tell a slow server from a busy process.
            socket_connect_timeout=2 * self._patience,
            socket_timeout=2 * self._patience,
            # Once more where a kept connection turns out to be one that the server has closed.
            retry=Retry(NoBackoff(), 1, supported_errors=(ConnectionError,)),
        )
        self._redis = Redis(connection_pool=pool)
        self._probing: asyncio.Task[None] | None = None

    @property
    def available(self) -> bool:
        return self._probing is None

    async def run(
        self, commands: Sequence[Command], *, patient: bool = False
    ) -> list[object] | None:
        """One pipeline. A command that the server refused (OOM, LOADING …) has the error for its
        reply; None where there was no answer at all. `patient` where no request waits for it."""
        if not self.available:
            return None
        pipeline = self._redis.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        seconds = self._patience if patient else self._timeout
        try:
            replies: list[object] = await _within(seconds, pipeline.execute(raise_on_error=False))
        except (RedisError, OSError, TimeoutError) as error:
            self._failed(error)
            return None
        refused = sum(isinstance(reply, Exception) for reply in replies)
        metrics.ERRORS.labels("refused").inc(refused)
        return replies

    async def connected(self) -> None:
        """Waits until the server answers."""
        self._open_breaker()
        if self._probing is not None:
            await asyncio.shield(self._probing)

    async def aclose(self) -> None:
        if self._probing is not None:
            self._probing.cancel()
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()

    def _failed(self, error: Exception) -> None:
        """By its kind alone: the message of an error may quote the address or the password."""
        timed_out = isinstance(error, TimeoutError | redis.exceptions.TimeoutError)
        kind = "timeout" if timed_out else "connection"
        metrics.ERRORS.labels(kind).inc()
        if self.available:
            logger.warning("Redis does not answer (%s); %s.", type(error).__name__, self._meanwhile)
        self._open_breaker()

    def _open_breaker(self) -> None:
        if self._probing is None:
            self._breaker.set(1)
            self._probing = asyncio.create_task(self._probe())

    async def _probe(self) -> None:
        pause = FIRST_PROBE
        while True:
            try:
                await _within(self._patience, self._redis.execute_command("PING"))  # type: ignore[no-untyped-call]
                break
            except (RedisError, OSError, TimeoutError):
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
        self._probing = None
        self._breaker.set(0)


async def _within(seconds: float, work: Coroutine[Any, Any, Any]) -> Any:
    """Raises TimeoutError. Unlike asyncio.timeout it does not blame the server for a time in which
    this process was busy: it waits in steps, a step counts once however long the process let it
    wait, and an answer that lies here unread is read first."""
    task = asyncio.create_task(work)
    try:
        for _ in range(STEPS):
            if (await asyncio.wait({task}, timeout=seconds / STEPS))[0]:
                return task.result()
        for _ in range(TURNS_TO_READ):
            await asyncio.sleep(0)
        if not task.done():
            raise TimeoutError
        return task.result()
    finally:
        task.cancel()
