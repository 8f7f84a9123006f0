"""The records of a fleet of gateways, in Redis; and who of them compiles what is new.

- `toolgate:grammar:<key>`: a sealed `GrammarRecord`
- `toolgate:lock:<key>`: the token of the gateway that has the grammar compiled now
- `toolgate:used:<YYYYMMDD>`: a sorted set of keys by how many requests used them that day (UTC)

Whatever goes wrong with Redis, a gateway goes on as if it were alone.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ..redis.client import Command, SharedRedis
from ..settings import Settings
from . import metrics
from .sealed_record import BadRecord, GrammarRecord, Seal

logger = logging.getLogger(__name__)

PREFIX = "toolgate"
USE_INTERVAL = 5.0
"""Seconds for which uses are counted here before they are told, all in one pipeline."""
USE_DAYS = 2
MAX_USED = 10_000
"""Keys counted a day; of more, those used least are let go."""
MAX_SCHEMA_BYTES = 4_000_000
"""What a record may hold beside its blob; a longer value is not even verified."""

RELEASE = """
for i, name in ipairs(KEYS) do
    if redis.call('GET', name) == ARGV[1] then redis.call('DEL', name) end
end"""
RENEW = """
for i, name in ipairs(KEYS) do
    if redis.call('GET', name) == ARGV[1] then redis.call('PEXPIRE', name, ARGV[2]) end
end"""


@dataclass
class Claim:
    """Keys to compile (`won`), and those that turned out to have a record. What is in neither,
    someone else compiles now."""

    token: str
    won: tuple[str, ...]
    found: Mapping[str, GrammarRecord]
    results: list[GrammarRecord] = field(default_factory=list)
    """What came of `won`; written as the locks are released."""


class RedisCache:
    def __init__(
        self,
        redis: SharedRedis,
        seal: Seal,
        settings: Settings,
        today: Callable[[], datetime.date] = lambda: datetime.datetime.now(datetime.UTC).date(),
    ) -> None:
        self._redis = redis
        self._seal = seal
        self._settings = settings
        self._today = today
        self._lock_ms = round(settings.grammar_lock_ttl * 1000)
        self._uses: Counter[str] = Counter()
        self._telling: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[Any]] = set()

    @classmethod
    def of(cls, settings: Settings) -> RedisCache | None:
        """None where there is no Redis, or no secret to seal records with."""
        if settings.redis_url is None:
            return None
        seal = Seal.of(settings.fleet_secret, settings.backend_key)
        if seal is None:
            logger.warning(
                "Grammars are kept per process, not in Redis: set TOOLGATE_FLEET_SECRET (or "
                "TOOLGATE_BACKEND_KEY), so that records can be told from forged ones."
            )
            return None
        return cls(SharedRedis(settings.redis_url, settings.redis_timeout), seal, settings)

    async def find(self, keys: Sequence[str], *, patient: bool = False) -> dict[str, GrammarRecord]:
        """The records of these keys that exist and can be believed: one MGET. `patient` where no
        request waits for them."""
        replies = await self._redis.run([("MGET", *map(_record, keys))], patient=patient)
        return self._opened(keys, _values(replies))

    async def claim(self, keys: Sequence[str]) -> Claim:
        """Takes the locks that are free, and looks once more: one pipeline. A record may have been
        written since it was last looked for. Without Redis everything is won."""
        token = secrets.token_hex(16)
        commands: list[Command] = [
            ("SET", _lock(key), token, "NX", "PX", self._lock_ms) for key in keys
        ]
        replies = await self._redis.run([*commands, ("MGET", *map(_record, keys))])
        if replies is None:
            return Claim(token, tuple(keys), {})
        found = self._opened(keys, _values(replies))
        # SET NX answers nil where the lock is taken. An error (out of memory) is no lock either,
        # but nobody else will get one: go on without.
        free = [key for key, reply in zip(keys, replies, strict=False) if reply is not None]
        needless = [key for key in free if key in found]
        if needless:
            self._later(self._redis.run([self._script(RELEASE, needless, token)], patient=True))
        return Claim(token, tuple(key for key in free if key not in found), found)

    @asynccontextmanager
    async def holding(self, claim: Claim) -> AsyncIterator[None]:
        """Inside, the locks are renewed: they outlive a long compile, but not this process.
        Afterwards they are released, together with the results, in one pipeline."""
        if not claim.won:
            yield
            return
        renewing = asyncio.create_task(self._renew(claim))
        try:
            yield
        finally:
            renewing.cancel()
            # Not waited for: the request that compiled has what it wanted.
            self._later(self._finish(claim))

    def used(self, keys: Iterable[str]) -> None:
        """A request used these. Costs no exchange of its own."""
        self._uses.update(keys)
        if self._telling is None:
            self._telling = self._later(self._tell_uses())

    async def most_used(self, limit: int) -> list[GrammarRecord]:
        """Ready grammars of today and yesterday, those that most requests used first."""
        days = [self._today() - datetime.timedelta(days=ago) for ago in range(USE_DAYS)]
        replies = await self._redis.run(
            [("ZREVRANGE", _used(day), 0, limit - 1, "WITHSCORES") for day in days], patient=True
        )
        uses: Counter[str] = Counter()
        for reply in replies or ():
            uses.update(_scores(reply))
        keys = [key for key, _ in uses.most_common(limit)]
        if not keys:
            return []
        found = await self.find(keys, patient=True)
        return [found[key] for key in keys if key in found]

    async def settle(self) -> None:
        """What goes on in the background is done."""
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)
            await self._flush_uses()
        while self._background:
            await asyncio.gather(*self._background, return_exceptions=True)

    async def aclose(self) -> None:
        await self.settle()
        await self._redis.aclose()

    @property
    def available(self) -> bool:
        """Whether Redis answers at this moment."""
        return self._redis.available

    async def connected(self) -> None:
        """Waits until Redis answers: a first connection is made before a request waits for it."""
        await self._redis.connected()

    # --- records ------------------------------------------------------------------------------

    def _opened(self, keys: Sequence[str], values: Sequence[object]) -> dict[str, GrammarRecord]:
        found = {}
        for key, value in zip(keys, values, strict=False):
            if not isinstance(value, bytes):
                continue
            try:
                if len(value) > self._settings.grammar_blob_limit + MAX_SCHEMA_BYTES:
                    raise BadRecord("size")
                found[key] = self._seal.open(key, value)
            except BadRecord as bad:
                metrics.RECORDS_DROPPED.labels(bad.reason).inc()
        return found

    def _written(self, record: GrammarRecord) -> Command:
        if len(record.verdict.blob or "") > self._settings.grammar_blob_limit:
            record = record.without_blob()
        ttl = self._settings.verdict_ttl(record.verdict)
        sealed = self._seal.close(record)
        metrics.RECORD_BYTES.observe(len(sealed))
        return ("SET", _record(record.key), sealed, "PX", round(ttl * 1000))

    # --- locks --------------------------------------------------------------------------------

    async def _renew(self, claim: Claim) -> None:
        while True:
            await asyncio.sleep(self._settings.grammar_lock_ttl / 3)
            await self._redis.run(
                [self._script(RENEW, claim.won, claim.token, self._lock_ms)], patient=True
            )

    async def _finish(self, claim: Claim) -> None:
        writes = [self._written(record) for record in claim.results]
        release = self._script(RELEASE, claim.won, claim.token)
        await self._redis.run([*writes, release], patient=True)

    def _script(self, script: str, keys: Sequence[str], *arguments: str | int) -> Command:
        return ("EVAL", script, len(keys), *map(_lock, keys), *arguments)

    # --- uses ---------------------------------------------------------------------------------

    async def _tell_uses(self) -> None:
        await asyncio.sleep(USE_INTERVAL)
        self._telling = None
        await self._flush_uses()

    async def _flush_uses(self) -> None:
        uses, self._uses = self._uses, Counter()
        if not uses:
            return
        day = _used(self._today())
        ttl = round(self._settings.grammar_ttl * 1000)
        commands: list[Command] = [("ZINCRBY", day, count, key) for key, count in uses.items()]
        # A grammar in use is not to expire: the gateways that hold it do not look at its record.
        commands += [("PEXPIRE", _record(key), ttl) for key in uses]
        commands += [("ZREMRANGEBYRANK", day, 0, -MAX_USED - 1), ("EXPIRE", day, USE_DAYS * 86_400)]
        await self._redis.run(commands, patient=True)

    def _later(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Runs it in the background. The set keeps the task from being collected."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


def _values(replies: Sequence[object] | None) -> Sequence[object]:
    """Those of an MGET at the end of a pipeline; none, where it had an error for its reply."""
    last = replies[-1] if replies else None
    return last if isinstance(last, list) else []


def _record(key: str) -> str:
    return f"{PREFIX}:grammar:{key}"


def _lock(key: str) -> str:
    return f"{PREFIX}:lock:{key}"


def _used(day: datetime.date) -> str:
    return f"{PREFIX}:used:{day:%Y%m%d}"


def _scores(reply: object) -> dict[str, int]:
    """ZREVRANGE's reply: [key, score, …] by RESP2, [[key, score], …] by RESP3; or an error."""
    if not isinstance(reply, list):
        return {}
    pairs = reply if reply and isinstance(reply[0], list | tuple) else _paired(reply)
    return {_text(key): int(float(score)) for key, score in pairs}


def _paired(flat: Sequence[Any]) -> list[tuple[Any, Any]]:
    return list(zip(flat[::2], flat[1::2], strict=False))


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
