"""`POST /v1/responses/compact`: a request for a response that has a summary only, and its response
in a form of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from toolgate_core.errors import UnsupportedParameter

from ...chat.response import ChatResponse, ResponseEvent
from ..surface import ANY_CLIENT, Client, Counting, Whole
from .compaction import TRIGGER, retained
from .output.body import usage_of
from .output.collector import Output
from .state.history import PREVIOUS, as_items
from .state.item_ids import with_ids
from .surface import Responses


class Compact(Responses):
    path = re.compile(r"(?:(?:/openai)?/v1)?/responses/compact")
    counting: Counting | None = None

    async def recall(self, body: Mapping[str, Any], client: Client) -> tuple[dict[str, Any], int]:
        return await super().recall(_with_trigger(body), client)

    def whole(self, response: ChatResponse, model: str, client: Client = ANY_CLIENT) -> Whole:
        return CompactedResponse(response, client)


def _with_trigger(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a request for a response that is not stored. Raise UnsupportedParameter.
    An invalid `input` stays as it is: the parser reports it."""
    if body.get("stream"):
        raise UnsupportedParameter(
            "'stream' is not supported by this operation. Remove it.", param="stream"
        )
    given = body.get("input")
    items = as_items(given)
    if not items and (given is not None or not isinstance(body.get(PREVIOUS), str)):
        return dict(body)
    return {**body, "input": [*items, {"type": TRIGGER}], "store": False}


class CompactedResponse:
    """A `response.compaction` object. It is not stored."""

    def __init__(self, response: ChatResponse, client: Client) -> None:
        self._response = response
        self._output = Output(response, summarized=False, seal=client.seal)

    def add(self, events: Iterable[ResponseEvent]) -> None:
        for _ in self._output.add(events):
            pass

    async def keep(self) -> None:
        pass

    def body(self) -> dict[str, Any]:
        response = self._response
        kept = retained(response.request.repeated["retained"], response.context_length)
        return {
            "id": response.head.id,
            "object": "response.compaction",
            "created_at": response.head.created,
            "output": [*map(_shown, with_ids(kept, response.head.id)), *self._output.items()],
            "usage": usage_of(response.all_counts),
        }


def _shown(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message as an item of the output, whose content is an array."""
    content = message["content"]
    if isinstance(content, str):
        content = [{"type": "input_text", "text": content}]
    return {**message, "content": content, "status": message.get("status") or "completed"}
