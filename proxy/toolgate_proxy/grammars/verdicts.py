"""The verdicts of backends on grammars: in the memory of one process, and the records in Redis."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from toolgate_core import wire
from toolgate_core.errors import SchemaTooComplex
from toolgate_core.wire import GrammarVerdict

from .. import metrics
from ..backend_client.replicas import Replicas
from ..redis_client import Command, Script, SharedRedis
from ..sealing import SealBroken, Sealer
from ..settings import Settings

GRAMMAR_TTL = 7 * 86_400
"""Seconds for which a grammar is known to be enforceable. Later, the next request asks for it."""
FIRST_TTL = 86_400
"""Seconds for which Redis has the record of a grammar that was used once. Most are used daily."""
MAX_RECORDS = 10_000
"""Most records of one key in Redis, beyond which its oldest ones are dropped."""
REFUSAL_TTL = 600
"""Seconds for which a refusal is believed. A new version of the backend may accept it."""
LIMIT_TTL = 60
"""Seconds after the limits on compile time or memory were exceeded: it may compile later."""
MAX_VERDICTS = 100_000


def verdict_ttl(verdict: wire.GrammarVerdict) -> float:
    """Return the seconds for which a backend's verdict on a grammar is believed."""
    if verdict.status == "ready":
        return GRAMMAR_TTL
    return LIMIT_TTL if verdict.code == SchemaTooComplex.code else REFUSAL_TTL


@dataclass
class _KnownVerdict:
    verdict: wire.GrammarVerdict
    until: float
    """The time until which it is believed."""
    joined: int = 0
    sends: int = 0
    """How often its record was sent since so many replicas had joined."""
    uses: int = 0


class MemoryCache:
    """The verdicts that were used last: ready or refused, with the reason and residual keywords."""

    def __init__(self) -> None:
        self._verdicts: OrderedDict[str, _KnownVerdict] = OrderedDict()

    def verdicts(self, keys: Iterable[str]) -> dict[str, wire.GrammarVerdict]:
        """Return the verdicts that are known, by key."""
        verdicts, now = dict[str, wire.GrammarVerdict](), time.monotonic()
        for key in keys:
            known = self._verdicts.pop(key, None)
            if known is not None and known.until > now:
                self._verdicts[key] = known  # as the last one
                known.uses += 1
                verdicts[key] = known.verdict
        return verdicts

    def reused(self, keys: Iterable[str]) -> list[str]:
        """Return the keys of enforceable grammars that a second request has just used. The request
        that has learnt a verdict uses it once."""
        known = filter(None, map(self._verdicts.get, keys))
        return [k.verdict.key for k in known if k.uses == 2 and k.verdict.status == "ready"]

    def lacked(self, keys: Iterable[str], replicas: Replicas) -> list[str]:
        """Return the keys whose records a replica of an address may lack, which count as sent. A
        router chooses the replica, so after one has joined each record is sent as often as there
        are replicas."""
        lacked, joined, count = list[str](), replicas.joined, replicas.count
        for known in filter(None, map(self._verdicts.get, keys)):
            if known.joined != joined:
                known.joined, known.sends = joined, 0
            if known.sends < count:
                known.sends += 1
                lacked.append(known.verdict.key)
        return lacked

    def remember(self, verdict: wire.GrammarVerdict) -> None:
        # Rewritten schemas and compiled grammars are large, and only of use to a backend.
        kept = verdict.model_copy(update={"rewritten": None, "blob": None})
        self._verdicts[verdict.key] = _KnownVerdict(kept, time.monotonic() + verdict_ttl(verdict))
        self._verdicts.move_to_end(verdict.key)
        if len(self._verdicts) > MAX_VERDICTS:
            self._verdicts.popitem(last=False)


logger = logging.getLogger(__name__)

PREFIX, INDEX = "toolgate:verdict:", "toolgate:verdicts-of:"
PUT = Script(__package__, "put.lua")
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
                "The shared grammar cache is disabled, because its records cannot be sealed. Set "
                "TOOLGATE_FLEET_SECRET or TOOLGATE_BACKEND_KEY."
            )
            return None
        return cls(
            SharedRedis(settings.redis_url, settings.redis_timeout), Sealer.from_settings(settings)
        )

    def operator(self, place: str, secret: str) -> str:
        """Return an opaque name for whoever runs the backends of a model (or at an address) that
        have this API key. What a backend says counts for the backends of its operator only."""
        return self._sealer.digest(f"{place}\0{secret}", purpose="operator")

    async def find(self, operator: str, keys: Sequence[str]) -> dict[str, GrammarVerdict]:
        """Return the verdicts that Redis has of these keys, read by one MGET."""
        names = {key: f"{operator}:{key}" for key in keys}
        replies = await self.redis.run([("MGET", *(PREFIX + name for name in names.values()))])
        values = replies[-1] if replies else None
        verdicts = dict[str, GrammarVerdict]()
        read = zip(names.items(), values if isinstance(values, list) else (), strict=False)
        for (key, name), value in read:
            if not isinstance(value, bytes):
                continue
            try:
                data = self._sealer.open(value, purpose=PURPOSE, owner=name)
            except SealBroken:
                metrics.RECORDS_DROPPED.inc()
                continue
            with suppress(ValidationError):  # of another release
                verdicts[key] = GrammarVerdict.model_validate_json(data)
        return verdicts

    def put(
        self,
        operator: str,
        verdicts: Sequence[GrammarVerdict],
        owner: str,
        first: float = FIRST_TTL,
    ) -> None:
        """Write verdicts, in the background, because the requests have their grammars. `owner`:
        whose request has caused them. `first`: seconds until which they must be used again."""
        if not verdicts:
            return
        names = [f"{operator}:{verdict.key}" for verdict in verdicts]
        written = list[bytes | int]()
        for name, verdict in zip(names, verdicts, strict=True):
            data = verdict.model_dump_json(exclude_none=True).encode()
            written.append(self._sealer.seal(data, purpose=PURPOSE, owner=name))
            written.append(round(min(verdict_ttl(verdict), first) * 1000))
        index = INDEX + self._sealer.digest(owner, purpose="owner of verdicts")
        keys = [index, *(PREFIX + name for name in names)]
        self._begin(PUT.run(self._run, keys, MAX_RECORDS, GRAMMAR_TTL * 1000, *written))

    def keep(self, operator: str, keys: Iterable[str]) -> None:
        """Keep the records of grammars that were used again, in the background."""
        names = (f"{PREFIX}{operator}:{key}" for key in keys)
        if commands := [("PEXPIRE", name, GRAMMAR_TTL * 1000) for name in names]:
            self._begin(self.redis.run(commands, patient=True))

    def _begin(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)  # a reference, so that it is not garbage-collected
        task.add_done_callback(self._background.discard)

    async def _run(self, command: Command) -> object:
        replies = await self.redis.run([command], patient=True)
        return replies[0] if replies else None

    async def flush(self) -> None:
        """Wait for all work in the background."""
        while self._background:
            await asyncio.gather(*self._background, return_exceptions=True)

    async def aclose(self) -> None:
        await self.flush()
        await self.redis.aclose()
