"""Stores, reads and deletes responses. Only their owner, a key or a team, can open them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from .. import metrics
from ..sealing import SealBroken, Sealer
from ..settings import Settings
from .background import BackgroundStore
from .live import LiveResponses
from .memory_store import MemoryResponses
from .record import (
    IN_THREAD,
    INFLATED,
    EventLog,
    RecordTooLarge,
    StoredResponse,
    open_events,
    open_record,
    sealed,
)
from .redis_store import RedisResponses
from .sealed_store import Kept, NotStored, SealedStore

logger = logging.getLogger(__name__)

MAX_TURNS = 1_000
"""Most responses of one conversation."""


@dataclass(frozen=True)
class Conversation:
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
    def __init__(self, store: SealedStore, sealer: Sealer, settings: Settings) -> None:
        self._store = store
        self._sealer = sealer
        self._max_bytes = settings.max_body_bytes
        """Of one conversation."""
        self._ttl = settings.responses_ttl
        self.live = LiveResponses(settings)
        self.background = BackgroundStore(store, sealer, settings, self.live)

    @classmethod
    def from_settings(cls, settings: Settings, sealer: Sealer) -> ResponseStore:
        """Make the store. Without Redis, or without a secret that all gateways have, each process
        stores its own responses."""
        redis = None
        if Sealer.is_shared(settings):
            redis = RedisResponses.from_settings(settings, sealer)
        elif settings.responses_redis_url or settings.redis_url:
            logger.warning(
                "Responses are not stored in Redis, because they can't be encrypted. Set "
                "TOOLGATE_FLEET_SECRET or TOOLGATE_BACKEND_KEY."
            )
        return cls(redis or MemoryResponses(settings), sealer, settings)

    @property
    def kept(self) -> Kept:
        return self._store.kept

    async def put(
        self, owner: str, response: StoredResponse, log: EventLog | None
    ) -> NotStored | None:
        """Return why the response was not stored. It is stored without events if they are too
        large."""
        made = await sealed(self._sealer, owner, response, log)
        reason = await self._store.put(owner, made)
        if reason == "too_large" and made.events:
            reason = await self._store.put(owner, replace(made, events=b""))
        metrics.RESPONSES_STORED.labels(reason or "stored").inc()
        return reason

    async def find(self, owner: str, response_id: str) -> StoredResponse | None:
        """Return a stored response. Raises StoreUnavailable."""
        turns = (await self._read(owner, response_id, most=1)).turns
        return turns[0] if turns else None

    async def conversation(self, owner: str, response_id: str) -> Conversation:
        """Return a conversation. Raises StoreUnavailable."""
        return await self._read(owner, response_id, most=MAX_TURNS)

    async def events(self, owner: str, response_id: str) -> EventLog | None:
        """Return the events of a streamed response. Raises StoreUnavailable."""
        sealed = await self._store.events(owner, response_id)
        if not sealed:
            return None
        try:
            most = INFLATED * self._max_bytes
            return open_events(self._sealer, owner, response_id, sealed, most)
        except (SealBroken, RecordTooLarge):
            metrics.RESPONSES_BROKEN.inc()
            return None

    async def delete(self, owner: str, response_id: str) -> bool:
        """Return whether there was such a response. Raises StoreUnavailable."""
        return await self._store.delete(owner, response_id)

    async def aclose(self) -> None:
        await self.background.aclose()
        await self._store.aclose()

    async def _read(self, owner: str, response_id: str, *, most: int) -> Conversation:
        found = await self._store.read(owner, response_id, most=most, size=self._max_bytes)
        work = partial(self._opened, owner, response_id, found, most)
        large = sum(map(len, found)) > IN_THREAD
        return await asyncio.to_thread(work) if large else work()

    def _opened(
        self, owner: str, response_id: str, found: Sequence[bytes], most: int
    ) -> Conversation:
        """Open the records. One that does not open counts as missing: someone with write access to
        Redis can delete it as well. So does one that someone has put back after its time."""
        turns: list[StoredResponse] = []
        wanted: str | None = response_id
        left = INFLATED * self._max_bytes
        for record in found:
            if not record:
                return Conversation(turns[::-1], too_long=True)
            if wanted is None:
                break
            try:
                turn, size = open_record(self._sealer, owner, wanted, record, left)
            except RecordTooLarge:
                return Conversation(turns[::-1], too_long=True)
            except SealBroken:
                metrics.RESPONSES_BROKEN.inc()
                break
            if turn.created + self._ttl < time.time():
                break
            turns.append(turn)
            left -= size
            wanted = turn.previous
        too_long = wanted is not None and len(turns) == most
        return Conversation(turns[::-1], None if too_long else wanted, too_long)
