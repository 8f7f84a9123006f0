"""Stores, reads and deletes responses. Only their owner, a key or a team, can open them."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .. import metrics
from ..sealing import SealBroken, Sealer
from ..settings import Settings
from .record import (
    IN_THREAD,
    INFLATED,
    Kept,
    NotStored,
    RecordTooLarge,
    StoredResponse,
    apart,
    open_record,
    sealed,
)
from .sealed_stores import MemoryResponses, RedisResponses, SealedResponses

logger = logging.getLogger(__name__)

MAX_TURNS = 1_000
"""Most responses of one conversation."""


@dataclass(frozen=True)
class StoredConversation:
    """A response and those that it continues, the oldest first."""

    turns: Sequence[StoredResponse]
    missing: str | None = None
    """The ID of the response before them, if it is not stored any more."""
    too_long: bool = False
    """There are more than MAX_TURNS, or more bytes than a request may have."""

    @property
    def items(self) -> list[Any]:
        return [item for turn in self.turns for item in turn.items]


class ResponseStore:
    def __init__(self, store: SealedResponses, sealer: Sealer, settings: Settings) -> None:
        self._store = store
        self.sealer = sealer
        self._max_bytes = settings.max_body_bytes
        """Of one conversation."""
        self._ttl = settings.responses_ttl

    @classmethod
    def from_settings(cls, settings: Settings, sealer: Sealer) -> ResponseStore:
        """Make the store. Without Redis, or without a secret that all gateways have, each process
        stores its own responses."""
        redis = None
        if Sealer.is_shared(settings):
            redis = RedisResponses.from_settings(settings, sealer)
        elif settings.responses_redis_url or settings.redis_url:
            logger.warning(
                "Responses are not stored in Redis, because they cannot be encrypted. Set "
                "TOOLGATE_FLEET_SECRET or TOOLGATE_BACKEND_KEY."
            )
        return cls(redis or MemoryResponses(settings), sealer, settings)

    @property
    def kept(self) -> Kept:
        return self._store.kept

    @property
    def shared(self) -> RedisResponses | None:
        """The store, if all gateways have it."""
        return self._store if isinstance(self._store, RedisResponses) else None

    async def put(self, owner: str, response: StoredResponse) -> NotStored | None:
        """Return why the response was not stored."""
        reason = await self._store.put(owner, await sealed(self.sealer, owner, response))
        metrics.RESPONSES_STORED.labels(reason or "stored").inc()
        return reason

    async def find(self, owner: str, response_id: str) -> StoredResponse | None:
        """Return a stored response. Raise ResponsesUnavailable."""
        turns = (await self.conversation(owner, response_id, most=1)).turns
        return turns[0] if turns else None

    async def conversation(self, owner: str, response_id: str, most: int = 0) -> StoredConversation:
        """Return a conversation. `most`: of its responses, if not MAX_TURNS. Raise
        ResponsesUnavailable."""
        most = most or MAX_TURNS
        records = await self._store.read(owner, response_id, most=most, size=self._max_bytes)
        return await self.opened(owner, response_id, records, most)

    async def delete(self, owner: str, response_id: str) -> bool:
        """Return whether there was such a response. Raise ResponsesUnavailable."""
        return await self._store.delete(owner, response_id)

    async def aclose(self) -> None:
        await self._store.aclose()

    async def opened(
        self, owner: str, response_id: str, records: Sequence[bytes], most: int = 1
    ) -> StoredConversation:
        """Return the conversation of records, the newest first."""
        large = sum(map(len, records)) > IN_THREAD
        return await apart(large, self._opened, owner, response_id, records, most)

    def _opened(
        self, owner: str, response_id: str, records: Sequence[bytes], most: int
    ) -> StoredConversation:
        """Open the records. One that does not open counts as missing: someone with write access to
        Redis can delete it as well. So does one that someone has put back after its time."""
        turns: list[StoredResponse] = []
        wanted: str | None = response_id
        left = INFLATED * self._max_bytes
        for record in records:
            if not record:
                return StoredConversation(turns[::-1], too_long=True)
            if wanted is None:
                break
            try:
                turn, size = open_record(self.sealer, owner, wanted, record, left)
            except RecordTooLarge:
                return StoredConversation(turns[::-1], too_long=True)
            except SealBroken:
                metrics.RESPONSES_BROKEN.inc()
                break
            if turn.created + self._ttl < time.time():
                break
            turns.append(turn)
            left -= size
            wanted = turn.previous
        too_long = wanted is not None and len(turns) == most
        return StoredConversation(turns[::-1], None if too_long else wanted, too_long)
