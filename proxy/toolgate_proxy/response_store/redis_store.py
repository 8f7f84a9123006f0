"""Sealed responses in Redis.

`toolgate:{responses:<owner>}:<response>`         digest of the previous response, sealed record
`toolgate:{responses:<owner>}:<response>:events`  sealed events
`toolgate:{responses:<owner>}:<response>:lease`   who changes the record
`toolgate:{responses:<owner>}:index`              sorted set: response and its size → last use
`toolgate:{responses:<owner>}:total`              bytes of all responses

Owners and responses are named by keyed digests. The digest of the previous response lets one
script read a conversation in one exchange; the record contains its ID as well.
"""

from __future__ import annotations

import logging
from typing import Literal, cast

from .. import metrics
from ..redis_client import Argument, Command, Script, SharedRedis
from ..sealing import HEAD_BYTES, Sealer
from ..settings import Settings
from .record import RESPONSE_MAX_BYTES, SealedResponse
from .sealed_store import Kept, NotStored, StoreUnavailable

logger = logging.getLogger(__name__)

PUT, READ, DELETE, HOLD, RELEASE = (
    Script(__package__, f"{name}.lua") for name in ("put", "read", "delete", "hold", "release")
)
TIMEOUT_SECONDS = 2.0
"""Of a command. Responses are large, so a command may take longer than one for keys or limits; a
client whose response can't be stored should still not wait for long."""
DIGEST = 32
NONE = b"0" * DIGEST
BROKEN = b"\0"


class RedisResponses:
    def __init__(self, redis: SharedRedis, sealer: Sealer, settings: Settings) -> None:
        self._redis = redis
        self._sealer = sealer
        self._life_ms = round(settings.responses_ttl * 1000)
        self._quota = (settings.responses_quota, settings.responses_quota_bytes)

    @classmethod
    def from_settings(cls, settings: Settings, sealer: Sealer) -> RedisResponses | None:
        url = settings.responses_redis_url or settings.redis_url
        if url is None:
            return None
        redis = SharedRedis(
            url,
            TIMEOUT_SECONDS,
            "Responses are not stored, and stored ones can't be read, until it responds",
            metrics.RESPONSES_BREAKER,
        )
        return cls(redis, sealer, settings)

    @property
    def kept(self) -> Kept:
        return "fleet" if self._redis.available else "unavailable"

    async def put(self, owner: str, response: SealedResponse) -> NotStored | None:
        reason = await self._put(owner, response, b"")
        return "exists" if reason == "changed" else reason

    async def replace(
        self, owner: str, response: SealedResponse, former: bytes
    ) -> NotStored | Literal["changed"] | None:
        return await self._put(owner, response, former[:HEAD_BYTES])

    async def read(self, owner: str, response_id: str, *, most: int, size: int) -> list[bytes]:
        names = _Names(self._sealer, owner)
        digest = names.digest(response_id)
        reply = await self._run(READ, [names.index], names.prefix, digest, most, size, DIGEST)
        # Only the mark of too many bytes is empty; a record that someone shortened does not open.
        return [record and (record[DIGEST:] or BROKEN) for record in cast(list[bytes], reply)]

    async def events(self, owner: str, response_id: str) -> bytes | None:
        events = _Names(self._sealer, owner).all_of(response_id)[1]
        reply = await self._command(("GET", events))
        if isinstance(reply, Exception):
            raise self._refused(reply)
        return cast(bytes | None, reply)

    async def delete(self, owner: str, response_id: str) -> bool:
        names = _Names(self._sealer, owner)
        reply = await self._run(DELETE, names.all_of(response_id), names.digest(response_id))
        return bool(reply)

    async def hold(self, owner: str, name: str, holder: str, seconds: float) -> bool:
        lease = _Names(self._sealer, owner).lease(name)
        return bool(await self._run(HOLD, [lease], holder, round(seconds * 1000)))

    async def release(self, owner: str, name: str, holder: str) -> None:
        await self._run(RELEASE, [_Names(self._sealer, owner).lease(name)], holder)

    async def aclose(self) -> None:
        await self._redis.aclose()

    async def _put(
        self, owner: str, response: SealedResponse, former: bytes
    ) -> NotStored | Literal["changed"] | None:
        """Store a record; in place of the one that begins with `former`, if that is not empty."""
        count, size = self._quota
        if not count:
            return "disabled"
        if response.size > min(RESPONSE_MAX_BYTES, size):
            return "too_large"
        names = _Names(self._sealer, owner)
        digest = names.digest(response.id)
        previous = NONE if response.previous is None else names.digest(response.previous).encode()
        try:
            reply = await self._run(
                PUT, names.all_of(response.id),
                previous + response.record, response.events,
                self._life_ms, count, size, digest, names.prefix, former and previous + former,
            )  # fmt: skip
        except StoreUnavailable:
            return "unavailable"
        stored, dropped = cast(list[int], reply)
        metrics.RESPONSES_DROPPED.inc(dropped)
        return None if stored else "changed"

    async def _run(self, script: Script, keys: list[str], *arguments: Argument) -> object:
        reply = await script.run(self._command, keys, *arguments)
        if isinstance(reply, Exception):
            raise self._refused(reply)
        return reply

    async def _command(self, command: Command) -> object:
        """Raise StoreUnavailable if Redis does not respond."""
        replies = await self._redis.run([command])
        if replies is None:
            raise StoreUnavailable("Redis does not respond")
        return replies[0]

    def _refused(self, reply: Exception) -> StoreUnavailable:
        """Log Redis' error. It contains names of entries and commands, not their values."""
        logger.error("Redis refused a command for stored responses: %.300s", reply)
        return StoreUnavailable("Redis refused the command")


class _Names:
    """The names of one owner's entries."""

    def __init__(self, sealer: Sealer, owner: str) -> None:
        self._sealer = sealer
        self._owner = owner
        self.prefix = f"toolgate:{{responses:{sealer.digest(owner, purpose='owner')}}}:"
        self.index = f"{self.prefix}index"

    def digest(self, response_id: str) -> str:
        return self._sealer.digest(f"{self._owner}\0{response_id}", purpose="response ID")

    def lease(self, name: str) -> str:
        return f"{self.prefix}{self.digest(name)}:lease"

    def all_of(self, response_id: str) -> list[str]:
        record = self.prefix + self.digest(response_id)
        return [record, f"{record}:events", self.index, f"{self.prefix}total"]
