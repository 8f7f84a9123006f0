"""Stored responses: what a request takes from them (the earlier turns of its conversation, and
items that `input` refers to), what is stored of it, and what clients retrieve.

IDs of items contain the ID of their response, so that a reference to an item leads to it:
`<prefix>_<response>_<n>` for items of the output, `<prefix>_<response>_in<n>` for those of `input`.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolgate_core.errors import (
    InvalidRequest,
    ItemNotFound,
    PreviousResponseNotFound,
    RequestTooLarge,
)

from ...features.all import RESPONSES
from ...response_store.record import UNFINISHED, StoredResponse
from ...response_store.store import ResponseStore
from ...sealing import OwnerSeal
from ..shared.history import text_of
from ..surface import Client
from .items import ENCRYPTED, PREVIOUS, encrypt
from .output_items import item_id

Json = dict[str, Any]

PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "additional_tools": "at",
    **{kind: prefix for feature in RESPONSES for kind, prefix in feature.ITEMS.items()},
}
ITEM_ID = re.compile(r"[a-z]+_(?P<response>.+)_(?:in)?\d+", re.DOTALL)
MAX_ITEMS = 10_000
"""Most items of a request with those of the responses that it continues."""
MAX_REFERRED = 1_000
"""Most responses whose items one request refers to."""
STATUS_OF = (
    "message",
    "function_call",
    "function_call_output",
    "tool_search_call",
    "tool_search_output",
)
"""Types of items that have a status."""


async def recall(body: Mapping[str, Any], client: Client) -> tuple[dict[str, Any], int]:
    """Return the body whose `input` begins with the items of the earlier turns, and their number.
    Items of the type `item_reference` are replaced by the items that they name. What is invalid
    stays as it is: the parser reports it.

    Raise PreviousResponseNotFound, ItemNotFound, RequestTooLarge and ResponsesUnavailable."""
    items = as_items(body.get("input"))
    previous = body.get(PREVIOUS)
    if not items or client.responses is None or client.seal is None:
        return dict(body), 0
    if previous is None and not any(map(_is_reference, items)):
        return dict(body), 0
    earlier: Sequence[Any] = ()
    history = StoredHistory(client.responses, client.seal.owner)
    if isinstance(previous, str):
        earlier = await history.before(previous)
    items = await history.resolved(items, "input")
    if len(earlier) + len(items) > MAX_ITEMS:
        raise too_long()
    return {**body, "input": [*earlier, *items]}, len(earlier)


def as_items(value: object) -> list[Any]:
    """Return `input` as items; empty if it is invalid."""
    if isinstance(value, str) and value:
        return [{"type": "message", "role": "user", "content": value}]
    return value if isinstance(value, list) else []


def too_long() -> RequestTooLarge:
    return RequestTooLarge(
        f"The conversation that {PREVIOUS!r} continues is too long. Begin a new one, with a "
        "summary in 'input'.",
        param=PREVIOUS,
    )


def _is_reference(item: object) -> bool:
    """Clients may leave the type out: an item that has only an ID is a reference."""
    if not isinstance(item, dict) or not isinstance(item.get("id"), str):
        return False
    kind = item.get("type")
    return kind == "item_reference" or (kind is None and set(item) <= {"id", "type"})


class StoredHistory:
    def __init__(self, responses: ResponseStore, owner: str) -> None:
        self._responses = responses
        self._owner = owner
        self._found: dict[str, StoredResponse | None] = {}

    async def before(self, previous: str) -> Sequence[Any]:
        """Return the items of a response and of those that it continues."""
        conversation = await self._responses.conversation(self._owner, previous)
        if conversation.too_long:
            raise too_long()
        if (missing := conversation.missing) is not None:
            # In ASCII, because JSON cannot hold half a surrogate pair.
            what = f"Previous response with id {previous!a} not found."
            if missing != previous:
                about = f"The response {missing!a}, which {previous!a} continues,"
                what = f"{about} is not stored any more."
            message = f"{what} Send the earlier items in 'input'."
            raise PreviousResponseNotFound(message, param=PREVIOUS)
        _check_continuable(conversation.turns)
        self._found |= {turn.id: turn for turn in conversation.turns}
        return conversation.items

    async def resolved(self, items: Sequence[Any], path: str) -> list[Any]:
        """Return the items, those that references name in place of the references."""
        return [
            await self._referred(item["id"], f"{path}[{at}]") if _is_reference(item) else item
            for at, item in enumerate(items)
        ]

    async def _referred(self, item_id: str, path: str) -> Any:
        response_id = response_of(item_id)
        response = None if response_id is None else await self._response(response_id)
        items = response.items if response is not None else ()
        for item in items:
            if isinstance(item, dict) and item.get("id") == item_id:
                return item
        raise ItemNotFound(
            f"Item with id {item_id!a} not found. Items of responses that were created with "
            "`store: false` are not stored. Send the item itself.",
            param=f"{path}.id",
        )

    async def _response(self, response_id: str) -> StoredResponse | None:
        if response_id not in self._found:
            if len(self._found) >= MAX_REFERRED:
                raise RequestTooLarge(
                    f"'input' refers to items of more than {MAX_REFERRED:,} responses. Send the "
                    "items themselves.",
                    param="input",
                )
            self._found[response_id] = await self._responses.find(self._owner, response_id)
        return self._found[response_id]


def _check_continuable(turns: Sequence[StoredResponse]) -> None:
    """Raise InvalidRequest for a response of the background that has no output."""
    for turn in turns:
        if (status := turn.body.get("status")) in UNFINISHED:
            raise InvalidRequest(
                f"The response {turn.id!a} cannot be continued, because its status is {status!r}. "
                "Continue one that is completed.",
                param=PREVIOUS,
            )


async def store(body: dict[str, Any], given: object, client: Client) -> dict[str, Any]:
    """Return the response object to send: `body`, or if it cannot be stored, with `store: false`
    and the reason in `toolgate.not_stored`. `given`: the request's own `input`. A response of the
    background is stored when its last event was sent."""
    waits = client.background is None and client.responses is not None
    if not (waits and body["store"]) or client.responses is None or client.seal is None:
        return body
    reason = await client.responses.put(client.seal.owner, turn_of(body, given))
    if reason is None:
        return body
    added = {**body.get("toolgate", {}), "not_stored": reason}
    return {**body, "store": False, "toolgate": added}


def turn_of(body: dict[str, Any], given: object) -> StoredResponse:
    """Return the record of a response. `given`: the request's own `input`."""
    return StoredResponse(
        body["id"],
        body,
        with_ids(as_items(given), body["id"]),
        body["previous_response_id"],
        body["created_at"],
    )


def retrieved(response: StoredResponse, include: Container[str], seal: OwnerSeal) -> Json:
    """Return the response object, with encrypted reasoning if `include` asks for it."""
    if ENCRYPTED not in include:
        return response.body
    return response.body | {
        "output": [_with_encrypted(item, seal) for item in response.body["output"]]
    }


@dataclass(frozen=True)
class Page:
    """Which items of a list a client asks for."""

    limit: int
    ascending: bool
    """The oldest item first."""
    after: str | None = None
    """The ID of the item before the first one."""


def listed(items: Sequence[Json], page: Page) -> Json:
    """Return one page of items. Raise InvalidRequest."""
    ordered = list(items) if page.ascending else list(reversed(items))
    if page.after is not None:
        at = next((at for at, item in enumerate(ordered) if item["id"] == page.after), None)
        if at is None:
            raise InvalidRequest(
                f"'after' names no item of this list: {page.after!a}.", param="after"
            )
        ordered = ordered[at + 1 :]
    data = [_shown(item) for item in ordered[: page.limit]]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": len(ordered) > page.limit,
    }


def _shown(item: Mapping[str, Any]) -> Json:
    """Return an item with the fields that clients may leave out."""
    full_item = {**item}
    if item["type"] == "message" and isinstance(item.get("content"), str):
        kind = "output_text" if item.get("role") == "assistant" else "input_text"
        full_item["content"] = [{"type": kind, "text": item["content"]}]
        if kind == "output_text":
            full_item["content"][0] |= {"annotations": []}
    if item["type"] in STATUS_OF:
        full_item["status"] = item.get("status") or "completed"
    return full_item


def _with_encrypted(item: Json, seal: OwnerSeal) -> Json:
    if item["type"] != "reasoning" or "encrypted_content" in item:
        return item
    parts = item.get("content") or item.get("summary") or ()
    return {**item, "encrypted_content": encrypt(seal, "".join(map(text_of, parts)))}


def response_of(item: str) -> str | None:
    """Return the ID of the response that the item belongs to; None if the ID is not one of ours."""
    match = ITEM_ID.fullmatch(item)
    return f"resp_{match['response']}" if match is not None else None


def with_ids(items: Sequence[Any], response_id: str) -> list[Any]:
    """Return items of `input` as they are stored: each with a type and an ID."""
    named = []
    for at, given in enumerate(items):
        item = {"role": "user", "content": given} if isinstance(given, str) else given
        kind = item.get("type") or "message"
        new_id = item_id(PREFIXES.get(kind, "item"), response_id, f"in{at}")
        named.append({**item, "id": item.get("id") or new_id, "type": kind})
    return named
