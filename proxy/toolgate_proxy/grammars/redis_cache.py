"""Shared cache: grammar records in Redis that all gateways use.

`toolgate:grammar:<key>` is a sealed `GrammarRecord`. If Redis fails, a gateway works without the
shared cache.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from .. import metrics
from ..redis_client import Command, SharedRedis
from ..sealing import Sealer
from ..settings import Settings
from .memory_cache import verdict_ttl
from .sealed_record import BadRecord, GrammarRecord, opened, sealed

logger = logging.getLogger(__name__)

PREFIX = "toolgate"
MAX_RECORD_BYTES = 4_000_000
"""Maximum size of a record. Longer values are rejected without verification."""


class RedisCache:
    def __init__(
        self,
        redis: SharedRedis,
        sealer: Sealer,
    ) -> None:
        self.redis = redis
        self._sealer = sealer
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

    async def find(self, keys: Sequence[str]) -> dict[str, GrammarRecord]:
        """Return the valid records of these keys, read by one MGET."""
        replies = await self.redis.run([("MGET", *map(_record, keys))])
        return self._open(keys, _values(replies))

    def put(self, records: Sequence[GrammarRecord]) -> None:
        """Write records, in the background, because the requests have their grammars."""
        if records:
            writes = [self._write_command(record) for record in records]
            task = asyncio.create_task(self.redis.run(writes, patient=True))
            self._background.add(task)  # a reference, so that it is not garbage-collected
            task.add_done_callback(self._background.discard)

    async def flush(self) -> None:
        """Wait for all work in the background."""
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


def _values(replies: Sequence[object] | None) -> Sequence[object]:
    """Return the values of an MGET at the end of a pipeline; empty if its reply was an error."""
    last = replies[-1] if replies else None
    return last if isinstance(last, list) else []


def _record(key: str) -> str:
    return f"{PREFIX}:grammar:{key}"
