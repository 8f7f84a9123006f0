"""Sealed responses in Redis, and in the memory of a process.

`toolgate:{responses:<owner>}:<response>`  digest of the previous response, sealed record
`toolgate:{responses:<owner>}:index`       sorted set: response and its size → last use
`toolgate:{responses:<owner>}:total`       bytes of all responses

Owners and responses are named by keyed digests. The digest of the previous response lets one
script read a conversation in one exchange; the record contains its ID as well.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, cast

from toolgate_core.errors import ResponsesUnavailable

from .. import metrics
from ..redis_client import Argument, Command, Script, SharedRedis
from ..sealing import Sealer
from ..settings import Settings
from .record import RESPONSE_MAX_BYTES, Kept, NotStored, SealedResponse, unavailable

logger = logging.getLogger(__name__)

PUT, READ, DELETE = (Script(__package__, f"{name}.lua") for name in ("put", "read", "delete"))
TIMEOUT_SECONDS = 2.0
"""Of a command. Responses are large, so a command may take longer than one for keys or limits; a
client whose response cannot be stored should still not wait for long."""
DIGEST = 32
NONE = b"0" * DIGEST
BROKEN = b"\0"


class RedisResponses:
    """Sealed responses in Redis. It neither opens them nor knows what they contain."""

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
            "Responses are not stored, and stored ones cannot be read, until it responds",
            metrics.RESPONSES_BREAKER,
        )
        return cls(redis, sealer, settings)

    @property
    def kept(self) -> Kept:
        return "fleet" if self._redis.available else "unavailable"

    @property
    def most(self) -> int:
        """Most bytes of a record. 0 if nothing is stored."""
        count, size = self._quota
        return min(RESPONSE_MAX_BYTES, size) if count else 0

    async def put(self, owner: str, response: SealedResponse) -> NotStored | None:
        """Store a response. If the owner's quota is reached, the responses that were used least
        recently are dropped. Return why it was not stored."""
        if not self.most:
            return "disabled"
        if len(response.record) > self.most:
            return "too_large"
        names = _Names(self._sealer, owner)
        digest = names.digest(response.id)
        previous = NONE if response.previous is None else names.digest(response.previous).encode()
        try:
            reply = await self.run(
                PUT, names.all_of(response.id),
                previous + response.record, self._life_ms, *self._quota, digest, names.prefix,
            )  # fmt: skip
        except ResponsesUnavailable:
            return "unavailable"
        stored, dropped = cast(list[int], reply)
        metrics.RESPONSES_DROPPED.inc(dropped)
        return None if stored else "exists"

    async def read(self, owner: str, response_id: str, *, most: int, size: int) -> list[bytes]:
        """Return the record and those that it continues, the newest first: at most `most`. If they
        have more than `size` bytes, the last one is empty. Raise ResponsesUnavailable."""
        names = _Names(self._sealer, owner)
        digest = names.digest(response_id)
        reply = await self.run(READ, [names.index], names.prefix, digest, most, size, DIGEST)
        # Only the mark of too many bytes is empty; a record that someone shortened does not open.
        return [record and (record[DIGEST:] or BROKEN) for record in cast(list[bytes], reply)]

    async def delete(self, owner: str, response_id: str) -> bool:
        """Return whether there was such a response. Raise ResponsesUnavailable."""
        names = _Names(self._sealer, owner)
        reply = await self.run(DELETE, names.all_of(response_id), names.digest(response_id))
        return bool(reply)

    def record_of(self, owner: str, response_id: str) -> str:
        """Return the name of a record."""
        return _Names(self._sealer, owner).all_of(response_id)[0]

    async def run(self, script: Script, keys: list[str], *arguments: Argument) -> object:
        """Raise ResponsesUnavailable."""

        async def command(sent: Command) -> object:
            return (await self._replies(sent))[0]

        return self._accepted([await script.run(command, keys, *arguments)])[0]

    async def commands(self, *commands: Command) -> list[Any]:
        """Return the replies. Raise ResponsesUnavailable."""
        return self._accepted(await self._replies(*commands))

    async def aclose(self) -> None:
        await self._redis.aclose()

    async def _replies(self, *commands: Command) -> list[Any]:
        replies = await self._redis.run(commands)
        if replies is None:
            raise unavailable("Redis does not respond")
        return replies

    def _accepted(self, replies: list[Any]) -> list[Any]:
        for reply in replies:
            if isinstance(reply, Exception):
                # Redis' error contains names of entries and commands, not their values.
                logger.error("Redis refused a command for stored responses: %.300s", reply)
                raise unavailable("Redis refused the command")
        return replies


class _Names:
    """The names of one owner's entries."""

    def __init__(self, sealer: Sealer, owner: str) -> None:
        self._sealer = sealer
        self._owner = owner
        self.prefix = f"toolgate:{{responses:{sealer.digest(owner, purpose='owner')}}}:"
        self.index = f"{self.prefix}index"

    def digest(self, response_id: str) -> str:
        return self._sealer.digest(f"{self._owner}\0{response_id}", purpose="response ID")

    def all_of(self, response_id: str) -> list[str]:
        return [self.prefix + self.digest(response_id), self.index, f"{self.prefix}total"]


MEMORY_BYTES = 64_000_000
"""Maximum size of all responses that a process stores. Who needs more has Redis."""


@dataclass
class _OwnerResponses:
    """One owner's responses, the least recently used first, each with its time of expiry."""

    responses: OrderedDict[str, tuple[SealedResponse, float]] = field(default_factory=OrderedDict)
    size: int = 0

    def find(self, response_id: str) -> SealedResponse | None:
        entry = self.responses.get(response_id)
        if entry is None:
            return None
        if entry[1] <= time.monotonic():
            self.drop(response_id)
            return None
        self.responses.move_to_end(response_id)
        return entry[0]

    def drop(self, response_id: str) -> None:
        self.size -= len(self.responses.pop(response_id)[0].record)


class MemoryResponses:
    """Sealed responses in this process, at most `MEMORY_BYTES`. Evicts from the least recently
    active owner first."""

    kept: Kept = "process"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._owners: OrderedDict[str, _OwnerResponses] = OrderedDict()

    async def put(self, owner: str, response: SealedResponse) -> NotStored | None:
        if not self._settings.responses_quota:
            return "disabled"
        if len(response.record) > min(RESPONSE_MAX_BYTES, self._most):
            return "too_large"
        if self._of(owner).find(response.id) is not None:
            return "exists"
        owned, expires = self._of(owner), time.monotonic() + self._settings.responses_ttl
        owned.responses[response.id] = (response, expires)
        owned.size += len(response.record)
        while len(owned.responses) > self._settings.responses_quota or owned.size > self._most:
            self._drop_first(owner)
        while sum(each.size for each in self._owners.values()) > MEMORY_BYTES:
            self._drop_first(next(iter(self._owners)))
        return None

    async def read(self, owner: str, response_id: str, *, most: int, size: int) -> list[bytes]:
        owned, wanted = self._of(owner), response_id
        records: list[bytes] = []
        while len(records) < most and (response := owned.find(wanted)) is not None:
            size -= len(response.record)
            records.append(response.record if size >= 0 else b"")
            if size < 0 or response.previous is None:
                break
            wanted = response.previous
        return records

    async def delete(self, owner: str, response_id: str) -> bool:
        owned = self._of(owner)
        if owned.find(response_id) is None:
            return False
        owned.drop(response_id)
        return True

    async def aclose(self) -> None:
        pass

    @property
    def _most(self) -> int:
        """Most bytes of one owner."""
        return min(self._settings.responses_quota_bytes, MEMORY_BYTES)

    def _of(self, owner: str) -> _OwnerResponses:
        owned = self._owners.setdefault(owner, _OwnerResponses())
        self._owners.move_to_end(owner)
        return owned

    def _drop_first(self, owner: str) -> None:
        owned = self._owners[owner]
        if not owned.responses:
            del self._owners[owner]
            return
        owned.drop(next(iter(owned.responses)))
        metrics.RESPONSES_DROPPED.inc()


SealedResponses = RedisResponses | MemoryResponses
