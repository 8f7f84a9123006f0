"""Requests for stored conversations, and what they return."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from openai.types.conversations import Conversation, ConversationItem
from pydantic import TypeAdapter

from tests.support.apis.responses_api import LOOK
from tests.support.apis.typed_events import read_events
from tests.support.litellm.own_route import MASTER, Gateway, Response

RESPONSES, CONVERSATIONS = "/v1/responses", "/v1/conversations"
ITEM: TypeAdapter[Any] = TypeAdapter(ConversationItem)
USER = {"role": "user", "content": "hi"}
TOOLS: dict[str, Any] = {"tools": [LOOK]}


async def send(
    gateway: Gateway,
    method: str,
    path: str = "",
    body: object = None,
    *,
    key: str = MASTER,
    **query: Any,
) -> Response:
    """A request for a conversation or its items."""
    return await gateway.ask(
        b"" if body is None else body,
        path=CONVERSATIONS + path,
        method=method,
        key=key,
        query=urlencode(query, doseq=True),
    )


async def created(gateway: Gateway, *items: Any, key: str = MASTER, **body: Any) -> str:
    response = await send(gateway, "POST", "", {"items": [*items], **body}, key=key)
    assert response.status == 200, response.json
    Conversation.model_validate(response.json, strict=True)
    return f"/{response.json['id']}"


async def ask(gateway: Gateway, conversation: Any, given: Any = "hi", **params: Any) -> Response:
    key, leave = params.pop("key", MASTER), params.pop("leave_after", None)
    if isinstance(conversation, str):
        conversation = conversation.removeprefix("/")
    body = {"model": "tiny", "input": given, "conversation": conversation, **params}
    return await gateway.ask(body, path=RESPONSES, key=key, leave_after=leave)


async def listed(gateway: Gateway, conversation: str, key: str = MASTER) -> list[Any]:
    found = await send(gateway, "GET", f"{conversation}/items", key=key, order="asc", limit=100)
    assert found.status == 200, found.json
    for item in found.json["data"]:
        ITEM.validate_python(item, strict=True)
    items: list[Any] = found.json["data"]
    return items


def code(response: Response) -> tuple[int, str, str | None]:
    error = response.json["error"]
    return response.status, error["code"], error["param"]


def body_of(response: Response) -> Any:
    if response.headers[b"content-type"].startswith(b"text/event-stream"):
        return read_events(b"".join(response.bodies))[-1]["response"]
    return response.json
