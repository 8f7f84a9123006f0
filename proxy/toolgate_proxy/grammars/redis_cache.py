"""Shared cache: the verdicts on grammars in Redis, which all gateways use.

`toolgate:verdict:<key>` is a `GrammarVerdict` that is sealed for its key. If Redis fails, a gateway
works without the shared cache.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from toolgate_core.wire import GrammarVerdict

from .. import metrics
from ..redis_client import Command, SharedRedis
from ..sealing import SealBroken, Sealer
from ..settings import Settings
from .memory_cache import verdict_ttl

logger = logging.getLogger(__name__)

PREFIX = "toolgate:verdict:"
PURPOSE = "grammar verdict"


class RedisCache:
    def __init__(self, redis: SharedRedis, sealer: Sealer) -> None:
        self.redis = redis
        self._sealer = sealer
        self._background: set[asyncio.Task[Any]] = set()

    @classmethod
    def from_settings(cls, settings: Settings) -> RedisCache | None:
        """Return None if no Redis or no secret for sealing verdicts is configured."""
        if settings.redis_url is None:
            return None
        if not Sealer.is_shared(settings):
            logger.warning(
                "The shared grammar cache is disabled, because its records can't be sealed. Set "
                "TOOLGATE_FLEET_SECRET or TOOLGATE_BACKEND_KEY."
            )
            return None
        return cls(
            SharedRedis(settings.redis_url, settings.redis_timeout), Sealer.from_settings(settings)
        )

    async def find(self, keys: Sequence[str]) -> dict[str, GrammarVerdict]:
        """Return the verdicts that Redis has of these keys, read by one MGET."""
        replies = await self.redis.run([("MGET", *(PREFIX + key for key in keys))])
        values = replies[-1] if replies else None
        found = dict[str, GrammarVerdict]()
        for key, value in zip(keys, values if isinstance(values, list) else (), strict=False):
            if not isinstance(value, bytes):
                continue
            try:
                data = self._sealer.open(value, purpose=PURPOSE, owner=key)
            except SealBroken:
                metrics.RECORDS_DROPPED.inc()
                continue
            with suppress(ValidationError):  # of another release
                found[key] = GrammarVerdict.model_validate_json(data)
        return found

    def put(self, verdicts: Sequence[GrammarVerdict]) -> None:
        """Write verdicts, in the background, because the requests have their grammars."""
        if verdicts:
            writes = [self._write_command(verdict) for verdict in verdicts]
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

    def _write_command(self, verdict: GrammarVerdict) -> Command:
        data = verdict.model_dump_json(exclude_none=True).encode()
        sealed = self._sealer.seal(data, purpose=PURPOSE, owner=verdict.key)
        return ("SET", PREFIX + verdict.key, sealed, "PX", round(verdict_ttl(verdict) * 1000))
