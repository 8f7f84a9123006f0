"""What clients retrieve of a stored response: the response object and its input."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolgate_core.errors import InvalidRequest

from ....response_store.record import StoredResponse
from ....sealing import OwnerSeal
from ...shared.history import text_of
from ..items import encrypt
from ..parameters import ENCRYPTED

Json = dict[str, Any]
STATUS_OF = (
    "message",
    "function_call",
    "function_call_output",
    "tool_search_call",
    "tool_search_output",
)
"""Types of items that have a status."""


def retrieved(response: StoredResponse, include: Container[str], seal: OwnerSeal) -> Json:
    """The response object, with encrypted reasoning if `include` asks for it."""
    if ENCRYPTED not in include:
        return response.body
    return response.body | {
        "output": [with_encrypted(item, seal) for item in response.body["output"]]
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
    """One page of items. Raises InvalidRequest."""
    ordered = list(items) if page.ascending else list(reversed(items))
    if page.after is not None:
        at = next((at for at, item in enumerate(ordered) if item["id"] == page.after), None)
        if at is None:
            raise InvalidRequest(
                f"'after' names no item of this list: {page.after!a}.", param="after"
            )
        ordered = ordered[at + 1 :]
    data = [shown(item) for item in ordered[: page.limit]]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": len(ordered) > page.limit,
    }


def shown(item: Mapping[str, Any]) -> Json:
    """An item with the fields that clients may leave out."""
    made = {**item}
    if item["type"] == "message" and isinstance(item.get("content"), str):
        kind = "output_text" if item.get("role") == "assistant" else "input_text"
        made["content"] = [{"type": kind, "text": item["content"]}]
        if kind == "output_text":
            made["content"][0] |= {"annotations": []}
    if item["type"] in STATUS_OF:
        made["status"] = item.get("status") or "completed"
    return made


def with_encrypted(item: Json, seal: OwnerSeal) -> Json:
    if item["type"] != "reasoning" or "encrypted_content" in item:
        return item
    parts = item.get("content") or item.get("summary") or ()
    return {**item, "encrypted_content": encrypt(seal, "".join(map(text_of, parts)))}
