"""Reading, parsing and replaying a request's body."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic_core import from_json
from starlette.types import Message, Receive, Scope

from toolgate_core.errors import InvalidRequest


async def read(receive: Receive) -> list[Message]:
    """All ASGI messages of the body. The last one may be `http.disconnect`."""
    messages = [await receive()]
    while messages[-1]["type"] == "http.request" and messages[-1].get("more_body", False):
        messages.append(await receive())
    return messages


def parse(scope: Scope, messages: Sequence[Message]) -> dict[str, Any]:
    """The body's JSON object. Accepts the same JSON as LiteLLM, but no forms. Raises
    InvalidRequest."""
    for name, value in scope["headers"]:
        if name == b"content-type" and b"form" in value.lower():
            raise InvalidRequest("The body must be JSON, sent as `content-type: application/json`.")
    body = content_of(messages)
    try:
        values = from_json(body)
    except ValueError:
        try:
            values = json.loads(body)  # accepts lone surrogates, unlike from_json
        except (ValueError, RecursionError) as error:
            raise InvalidRequest("The body is not valid JSON.") from error
    if not isinstance(values, dict):
        raise InvalidRequest("The body must be a JSON object.")
    return values


def content_of(messages: Sequence[Message]) -> bytes:
    return b"".join(message.get("body", b"") for message in messages)


def again(messages: Sequence[Message], receive: Receive) -> Receive:
    """A `receive` that replays `messages` and then continues with the client's next messages."""
    waiting = iter(messages)

    async def read_again() -> Message:
        message = next(waiting, None)
        return await receive() if message is None else message

    return read_again
