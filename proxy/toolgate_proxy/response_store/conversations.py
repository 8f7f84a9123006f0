"""Stored conversations: items that responses continue and clients edit.

A conversation is one record, which each change replaces. Who changes it has its lease, so that
turns do not interleave, and replaces the record that it read, so that nothing is lost if the lease
ended too early.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Any, Self

from toolgate_core.errors import ConversationLocked, ConversationNotFound, RequestTooLarge

from .. import metrics
from ..sealing import SealBroken, Sealer
from ..settings import Settings
from .record import (
    IN_THREAD,
    INFLATED,
    Json,
    RecordTooLarge,
    SealedResponse,
    is_large,
    open_json,
    seal_json,
)
from .sealed_store import Lease, NotStored, SealedStore, StoreUnavailable

PURPOSE = "conversation"


@dataclass(frozen=True)
class StoredConversation:
    id: str
    created: int
    """Seconds since 1970."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    items: Sequence[Json] = ()
    changed: int = 0
    """Seconds since 1970."""


class ConversationStore:
    def __init__(self, store: SealedStore, sealer: Sealer, settings: Settings) -> None:
        self._store = store
        self._sealer = sealer
        self._most = INFLATED * settings.max_body_bytes
        self._max_bytes = settings.max_body_bytes
        self._ttl = settings.responses_ttl

    async def create(self, owner: str, conversation: StoredConversation) -> NotStored | None:
        """Return why the conversation was not stored."""
        reason = await self._store.put(owner, await self._sealed(owner, conversation))
        metrics.RESPONSES_STORED.labels(reason or "stored").inc()
        return reason

    async def find(self, owner: str, conversation_id: str) -> StoredConversation:
        """Raises ConversationNotFound and StoreUnavailable."""
        return (await self.read(owner, conversation_id))[0]

    async def read(self, owner: str, conversation_id: str) -> tuple[StoredConversation, bytes]:
        """Return the conversation and its record. A record that does not open, or that someone has
        put back after its time, counts as missing. Raises as `find`, and RequestTooLarge."""
        name = _name(conversation_id)
        found = await self._store.read(owner, name, most=1, size=self._max_bytes)
        if not found:
            raise missing(conversation_id)
        record = found[0]
        if not record:
            raise too_large()
        work = partial(self._opened, owner, record)
        try:
            large = len(record) > IN_THREAD
            conversation = await asyncio.to_thread(work) if large else work()
        except (SealBroken, RecordTooLarge) as error:
            metrics.RESPONSES_BROKEN.inc()
            raise missing(conversation_id) from error
        if conversation.id != conversation_id or conversation.changed + self._ttl < time.time():
            raise missing(conversation_id)
        return conversation, record

    async def replace(
        self, owner: str, conversation: StoredConversation, former: bytes
    ) -> tuple[StoredConversation, bytes]:
        """Store a changed conversation in place of the record that was read. Return it and its
        record. Raises ConversationLocked, ConversationNotFound, RequestTooLarge and
        StoreUnavailable."""
        conversation = replace(conversation, changed=int(time.time()))
        sealed = await self._sealed(owner, conversation)
        reason = await self._store.replace(owner, sealed, former)
        match reason:
            case None:
                return conversation, sealed.record
            case "too_large":
                raise too_large()
            case "changed":
                await self.find(owner, conversation.id)
                raise locked(conversation.id)
            case _:
                raise StoreUnavailable("Redis does not respond or refuses the write")

    async def delete(self, owner: str, conversation_id: str) -> None:
        """Raises ConversationNotFound and StoreUnavailable."""
        if not await self._store.delete(owner, _name(conversation_id)):
            raise missing(conversation_id)

    def lease(self, owner: str, conversation_id: str) -> Lease:
        return Lease(self._store, owner, _name(conversation_id))

    async def _sealed(self, owner: str, conversation: StoredConversation) -> SealedResponse:
        work = partial(seal_json, self._sealer, owner, PURPOSE, vars(conversation))
        record = await asyncio.to_thread(work) if is_large(conversation.items) else work()
        return SealedResponse(_name(conversation.id), None, record)

    def _opened(self, owner: str, record: bytes) -> StoredConversation:
        values, _ = open_json(self._sealer, owner, PURPOSE, record, self._most)
        return StoredConversation(**values)


class ConversationTurn:
    """A change of one conversation, which no other request can change until it ends. Async context
    manager."""

    def __init__(self, conversations: ConversationStore, owner: str) -> None:
        self._conversations = conversations
        self._owner = owner
        self._lease: Lease | None = None
        self._found: tuple[StoredConversation, bytes] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.end()

    @property
    def conversation(self) -> StoredConversation | None:
        """The conversation, if there is one."""
        return None if self._found is None else self._found[0]

    async def open(self, conversation_id: str) -> StoredConversation:
        """Lock and return the conversation. A request opens it again for a fallback.

        Raises ConversationLocked, ConversationNotFound and StoreUnavailable."""
        if self._found is None:
            lease = self._conversations.lease(self._owner, conversation_id)
            if not await lease.take():
                raise locked(conversation_id)
            self._lease = lease
            self._found = await self._conversations.read(self._owner, conversation_id)
        return self._found[0]

    async def change(self, **members: Any) -> StoredConversation:
        """Replace members of the open conversation. Raises as `ConversationStore.replace`."""
        assert self._found is not None
        conversation, record = self._found
        changed = replace(conversation, **members)
        self._found = await self._conversations.replace(self._owner, changed, record)
        return self._found[0]

    async def end(self) -> None:
        """Unlock the conversation, if it is open."""
        lease, self._lease = self._lease, None
        if lease is not None:
            await lease.release()


def missing(conversation_id: str) -> ConversationNotFound:
    """IDs are shown in ASCII, because JSON can't hold half a surrogate pair."""
    return ConversationNotFound(
        f"Conversation with id {conversation_id!a} not found.", param="conversation"
    )


def locked(conversation_id: str) -> ConversationLocked:
    return ConversationLocked(
        f"Another request is adding a turn to the conversation {conversation_id!a}, or is changing "
        "it. Send this one again when that has ended.",
        param="conversation",
        retry_after=1,
    )


def too_large() -> RequestTooLarge:
    return RequestTooLarge(
        "The conversation is too large. Begin a new one, with a summary in `items`.",
        param="conversation",
    )


def _name(conversation_id: str) -> str:
    """The name of a record. No ID of a response in a path contains a slash, so that operations on
    responses do not find conversations."""
    return f"conversations/{conversation_id}"
