"""Shared cache: grammar records in Redis that all gateways use.

- `toolgate:grammar:<key>`: a sealed `GrammarRecord`
- `toolgate:used:<YYYYMMDD>`: a sorted set of keys by the number of requests on that day (UTC)

If Redis fails, a gateway works without the shared cache.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from .. import metrics
from ..redis_client import Command, SharedRedis
from ..sealing import Sealer
from ..settings import Settings
from .memory_cache import GRAMMAR_TTL, verdict_ttl
from .sealed_record import BadRecord, GrammarRecord, opened, sealed

logger = logging.getLogger(__name__)

PREFIX = "toolgate"
USE_INTERVAL = 5.0
"""Seconds for which uses are counted in this process before one pipeline adds them to Redis."""
USE_DAYS = 2
MAX_USED = 10_000
"""Maximum number of keys counted per day. The least used ones are removed."""
MAX_RECORD_BYTES = 4_000_000
"""Maximum size of a record. Longer values are rejected without verification."""


class RedisCache:
    def __init__(
        self,
        redis: SharedRedis,
        sealer: Sealer,
        today: Callable[[], datetime.date] = lambda: datetime.datetime.now(datetime.UTC).date(),
    ) -> None:
        self.redis = redis
        self._sealer = sealer
        self._today = today
        self._uses: Counter[str] = Counter()
        self._flush_task: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[Any]] = set()

    @classmethod
    def from_settings(cls, settings: Settings) -> RedisCache | None:
        """Return None if no Redis or no secret for sealing records is configured."""
        if settings.redis_url is None:
            return None
        if not Sealer.is_shared(settings):
            logger.warning(
                "The shared grammar cache is disabled, because its records can't be signed. Set "
                "TOOLGATE_FLEET_SECRET or TOOLGATE_BACKEND_KEY."
            )
            return None
        return cls(
            SharedRedis(settings.redis_url, settings.redis_timeout), Sealer.from_settings(settings)
        )

    async def find(self, keys: Sequence[str], *, patient: bool = False) -> dict[str, GrammarRecord]:
        """Return the valid records of these keys, read by one MGET. `patient`: no request waits, so
        the longer timeout applies."""
        replies = await self.redis.run([("MGET", *map(_record, keys))], patient=patient)
        return self._open(keys, _values(replies))

    def put(self, records: Sequence[GrammarRecord]) -> None:
        """Write records, in the background, because the requests have their grammars."""
        if records:
            writes = [self._write_command(record) for record in records]
            self._in_background(self.redis.run(writes, patient=True))

    def count_uses(self, keys: Iterable[str]) -> None:
        """Count one request's grammars. Causes no round trip of its own."""
        self._uses.update(keys)
        if self._flush_task is None:
            self._flush_task = self._in_background(self._flush_uses_later())

    async def most_used(self, limit: int) -> list[GrammarRecord]:
        """Return the records of today's and yesterday's grammars, the most used first."""
        days = [self._today() - datetime.timedelta(days=ago) for ago in range(USE_DAYS)]
        replies = await self.redis.run(
            [("ZREVRANGE", _used(day), 0, limit - 1, "WITHSCORES") for day in days], patient=True
        )
        uses: Counter[str] = Counter()
        for reply in replies or ():
            uses.update(_scores(reply))
        keys = [key for key, _ in uses.most_common(limit)]
        if not keys:
            return []
        records = await self.find(keys, patient=True)
        return [records[key] for key in keys if key in records]

    async def flush(self) -> None:
        """Write the counted uses and wait for all work in the background."""
        if self._flush_task is not None:
            self._flush_task.cancel()
            await asyncio.gather(self._flush_task, return_exceptions=True)
            await self._flush_uses()
        while self._background:
            await asyncio.gather(*self._background, return_exceptions=True)

    async def aclose(self) -> None:
        await self.flush()
        await self.redis.aclose()

    @property
    def available(self) -> bool:
        """Whether Redis responds at the moment."""
        return self.redis.available

    async def wait_until_connected(self) -> None:
        """Wait for the first connection to Redis, so that no request waits for it."""
        await self.redis.connected()

    # --- records ------------------------------------------------------------------------------

    def _open(self, keys: Sequence[str], values: Sequence[object]) -> dict[str, GrammarRecord]:
        records = {}
        for key, value in zip(keys, values, strict=False):
            if not isinstance(value, bytes):
                continue
            try:
                if len(value) > MAX_RECORD_BYTES:
                    raise BadRecord("size")
                records[key] = opened(key, value, self._sealer)
            except BadRecord as bad:
                metrics.RECORDS_DROPPED.labels(bad.reason).inc()
        return records

    def _write_command(self, record: GrammarRecord) -> Command:
        ttl = verdict_ttl(record.verdict)
        value = sealed(record, self._sealer)
        return ("SET", _record(record.key), value, "PX", round(ttl * 1000))

    # --- uses ---------------------------------------------------------------------------------

    async def _flush_uses_later(self) -> None:
        await asyncio.sleep(USE_INTERVAL)
        self._flush_task = None
        await self._flush_uses()

    async def _flush_uses(self) -> None:
        uses, self._uses = self._uses, Counter()
        if not uses:
            return
        day = _used(self._today())
        ttl = round(GRAMMAR_TTL * 1000)
        commands: list[Command] = [("ZINCRBY", day, count, key) for key, count in uses.items()]
        # Gateways that have a grammar in memory do not read its record, which must not expire.
        commands += [("PEXPIRE", _record(key), ttl) for key in uses]
        commands += [("ZREMRANGEBYRANK", day, 0, -MAX_USED - 1), ("EXPIRE", day, USE_DAYS * 86_400)]
        await self.redis.run(commands, patient=True)

    def _in_background(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task. The set keeps a reference, so that the task is not garbage-collected."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


def _values(replies: Sequence[object] | None) -> Sequence[object]:
    """Return the values of an MGET at the end of a pipeline; empty if its reply was an error."""
    last = replies[-1] if replies else None
    return last if isinstance(last, list) else []


def _record(key: str) -> str:
    return f"{PREFIX}:grammar:{key}"


def _used(day: datetime.date) -> str:
    return f"{PREFIX}:used:{day:%Y%m%d}"


def _scores(reply: object) -> dict[str, int]:
    """Parse the reply of ZREVRANGE: [key, score, …] in RESP2, [[key, score], …] in RESP3, or an
    error."""
    if not isinstance(reply, list):
        return {}
    pairs = reply if reply and isinstance(reply[0], list | tuple) else _paired(reply)
    return {_text(key): int(float(score)) for key, score in pairs}


def _paired(flat: Sequence[Any]) -> list[tuple[Any, Any]]:
    return list(zip(flat[::2], flat[1::2], strict=False))


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
