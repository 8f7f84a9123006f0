"""Operations on stored conversations and their items, for their owner."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

from toolgate_core.errors import (
    InvalidRequest,
    ItemNotFound,
    MethodNotAllowed,
    ResponsesUnavailable,
    UnsupportedParameter,
)

from ..api.responses.parameters import ENCRYPTED
from ..api.responses.state.conversation import CONVERSATION, joined, new_items
from ..api.responses.state.history import StoredHistory, unavailable
from ..api.responses.state.retrieval import Page, listed, shown, with_encrypted
from ..api.shared.collection_types import TextMap
from ..context import context_of
from ..response_store.conversations import (
    ConversationStore,
    ConversationTurn,
    StoredConversation,
    too_large,
)
from ..response_store.sealed_store import StoreUnavailable
from ..sealing import OwnerSeal
from ..state import gateway
from . import incoming
from .authorization import check_key
from .body_guard import check_bounds
from .paths import MATCH
from .storage_access import Query, admit, json_response

PATHS = re.compile(
    r"(?:(?:/openai)?/v1)?/conversations"
    r"(?:/(?P<id>[^/]+)(?P<items>/items(?:/(?P<item>[^/]+))?)?)?",
    re.DOTALL,
)
METADATA = TextMap(16, name=64, length=512)

Json = dict[str, Any]


async def respond(scope: Scope, receive: Receive, send: Send) -> None:
    """ASGI app for PATHS. Raise ToolgateError."""
    context, found = context_of(scope), scope[MATCH]
    await check_key(scope, context)
    values: Json = {}
    if scope["method"] == "POST":
        sent = await incoming.read(scope, receive, context)
        values = await sent.parsed(scope, check_bounds) if sent.size else {}
        sent.free()
        _check_writable(values)
    store, seal = gateway().responses.conversations, await admit(scope, context)
    work = _Work(store, seal, found["id"] or "", found["item"] or "", values, Query(scope))
    try:
        content = await work.of(scope["method"], bool(found["items"]))
    except StoreUnavailable as error:
        raise unavailable(error) from error
    await json_response(content)(scope, receive, send)


@dataclass(frozen=True)
class _Work:
    _store: ConversationStore
    _seal: OwnerSeal
    _id: str
    """Of the conversation. An empty text if the path has none."""
    _item_id: str
    """An empty text if the path has none."""
    _values: Mapping[str, Any]
    _query: Query

    async def of(self, method: str, of_items: bool) -> Json:
        kind = ("item" if self._item_id else "items") if of_items else "all"
        kind = kind if self._id else "new"
        works: dict[tuple[str, str], Callable[[], Awaitable[Json]]] = {
            ("POST", "new"): self._create,
            ("GET", "all"): self._retrieve,
            ("POST", "all"): self._update,
            ("DELETE", "all"): self._delete,
            ("POST", "items"): self._add_items,
            ("GET", "items"): self._list_items,
            ("GET", "item"): self._retrieve_item,
            ("DELETE", "item"): self._delete_item,
        }
        work = works.get((method, kind))
        if work is None:
            allowed = ", ".join(each for each, wanted in works if wanted == kind)
            raise MethodNotAllowed(f"This route of conversations has no {method}. Use {allowed}.")
        return await work()

    async def _create(self) -> Json:
        self._check("items", "metadata")
        now = int(time.time())
        empty = StoredConversation(f"conv_{secrets.token_hex(16)}", now, changed=now)
        items = []
        if self._values.get("items"):
            items = joined(empty, await self._new_items(empty))
        made = StoredConversation(empty.id, now, self._metadata(), items, now)
        match await self._store.create(self._seal.owner, made):
            case None:
                return _body(made)
            case "too_large":
                raise too_large()
            case "disabled":
                raise UnsupportedParameter(
                    "This gateway stores no conversations (TOOLGATE_RESPONSES_QUOTA is 0). Send "
                    "the whole conversation in `input` of each request."
                )
            case reason:
                raise ResponsesUnavailable(
                    f"The conversation was not stored ({reason}). Try again shortly.",
                    retry_after=1,
                )

    async def _retrieve(self) -> Json:
        return _body(await self._find())

    async def _update(self) -> Json:
        self._check("metadata")
        if "metadata" not in self._values:
            raise InvalidRequest(
                "'metadata' is required. Send an object, or null to remove all of it.",
                param="metadata",
            )
        metadata = self._metadata()
        async with self._turn() as turn:
            await turn.open(self._id)
            return _body(await turn.change(metadata=metadata))

    async def _delete(self) -> Json:
        async with self._turn() as turn:
            await turn.open(self._id)
            await self._store.delete(self._seal.owner, self._id)
        return {"id": self._id, "object": "conversation.deleted", "deleted": True}

    async def _add_items(self) -> Json:
        self._check("items")
        include = self._query.include()
        async with self._turn() as turn:
            former = await turn.open(self._id)
            items = joined(former, await self._new_items(former))
            await turn.change(items=items)
        added = items[len(former.items) :]
        return listed(self._with(include, added), Page(len(added), ascending=True))

    async def _list_items(self) -> Json:
        include, page = self._query.include(), self._query.page()
        return listed(self._with(include, (await self._find()).items), page)

    async def _retrieve_item(self) -> Json:
        include = self._query.include()
        item = self._item(await self._find())
        return shown(self._with(include, [item])[0])

    async def _delete_item(self) -> Json:
        async with self._turn() as turn:
            conversation = await turn.open(self._id)
            removed = self._item(conversation)
            kept = [item for item in conversation.items if item is not removed]
            return _body(await turn.change(items=kept))

    async def _find(self) -> StoredConversation:
        return await self._store.find(self._seal.owner, self._id)

    def _turn(self) -> ConversationTurn:
        return ConversationTurn(self._store, self._seal.owner)

    async def _new_items(self, conversation: StoredConversation) -> list[Json]:
        given = self._values.get("items")
        if isinstance(given, list):
            history = StoredHistory(gateway().responses, self._seal.owner)
            given = await history.resolved(given, "items")
        return new_items(given, conversation, self._seal)

    def _item(self, conversation: StoredConversation) -> Json:
        for item in conversation.items:
            if item["id"] == self._item_id:
                return item
        raise ItemNotFound(
            f"Item with id {self._item_id!a} not found in the conversation {self._id!a}."
        )

    def _with(self, include: list[str], items: Any) -> list[Json]:
        """The items with their encrypted reasoning, if `include` asks for it."""
        encrypted = ENCRYPTED in include
        return [with_encrypted(item, self._seal) if encrypted else item for item in items]

    def _metadata(self) -> dict[str, str]:
        given = self._values.get("metadata")
        return {} if given is None else METADATA.parse(given, "metadata")

    def _check(self, *names: str) -> None:
        """Raise UnsupportedParameter for a member of the body that is not one of `names`."""
        for name, value in self._values.items():
            if name not in names and value is not None:
                raise UnsupportedParameter(
                    f"{name!r} is not supported here. Use {' or '.join(names)}.", param=name
                )


def _check_writable(values: Json) -> None:
    """Raise InvalidRequest for values that a later response could not contain."""
    try:
        orjson.dumps([[[[values]]]])
    except TypeError as error:
        raise InvalidRequest(
            "The body can't be stored: a text has half of a surrogate pair, or values are nested "
            "more than 250 levels deep. Correct it."
        ) from error


def _body(conversation: StoredConversation) -> Json:
    return {
        "id": conversation.id,
        "object": CONVERSATION,
        "created_at": conversation.created,
        "metadata": conversation.metadata,
    }
