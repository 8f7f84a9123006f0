"""Reading, parsing and replaying a request's body, within limits on its time and size."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import orjson
from starlette.types import Message, Receive, Scope

from toolgate_core.errors import (
    InvalidRequest,
    RequestTimeout,
    RequestTooLarge,
    UnsupportedEncoding,
)

from ...json_values import exceeds
from ...limits.body_budget import Reservation

MAX_VALUES = 200_000
"""Maximum number of JSON values in a body. A value of two bytes takes a hundred bytes of memory
once it is parsed, and the parser does not let other requests continue."""
LARGE = 1_000_000
"""Size in bytes from which a body is parsed and checked in a thread."""
PLAIN = (b"", b"identity")
RESERVED = "toolgate.reserved"
"""Key in the ASGI scope of a function that ends the reservation of a body that was read before."""


async def read(
    scope: Scope,
    receive: Receive,
    *,
    limit: int,
    seconds: float,
    reservation: Reservation | None = None,
) -> list[Message]:
    """All ASGI messages of the body. The last one may be `http.disconnect`. `reservation`: is made
    for the body; the caller closes it. Raises RequestTooLarge for a body of more than `limit`
    bytes, RequestTimeout if it takes more than `seconds`, UnsupportedEncoding for a compressed
    body, and RateLimited if there is no room for it."""
    length = _length(scope, limit)
    size, messages = 0, []
    try:
        async with asyncio.timeout(seconds):
            if reservation is not None and length:
                await reservation.wait(length)
            while True:
                message = await receive()
                messages.append(message)
                size += len(message.get("body", b""))
                if size > limit:
                    raise _too_large(limit)
                if reservation is not None and size > reservation.size:
                    reservation.resize(size)
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return messages
    except TimeoutError as error:
        if reservation is not None and length and not reservation.size:
            raise reservation.refusal() from error
        raise RequestTimeout(
            f"The body did not arrive within {seconds:g} s (TOOLGATE_BODY_TIMEOUT). Send the "
            "request again, with a smaller body or over a faster connection."
        ) from error


async def parse(
    scope: Scope, messages: Sequence[Message], check: Callable[[dict[str, Any]], None] | None = None
) -> dict[str, Any]:
    """The body's JSON object, for which `check` raises no error. Accepts the same JSON as LiteLLM,
    but no forms. Raises InvalidRequest and RequestTooLarge."""
    for name, value in scope["headers"]:
        if name == b"content-type" and b"form" in value.lower():
            raise InvalidRequest("The body must be JSON, sent as `content-type: application/json`.")
    content = content_of(messages)

    def parsed() -> dict[str, Any]:
        values = from_json(content)
        if not isinstance(values, dict):
            raise InvalidRequest("The body must be a JSON object.")
        if check is not None:
            check(values)
        return values

    return await asyncio.to_thread(parsed) if len(content) > LARGE else parsed()


def content_of(messages: Sequence[Message]) -> bytes:
    return b"".join(message.get("body", b"") for message in messages)


def again(messages: Sequence[Message], receive: Receive) -> Receive:
    """A `receive` that replays `messages` and then continues with the client's next messages."""
    waiting = iter(messages)

    async def read_again() -> Message:
        message = next(waiting, None)
        return await receive() if message is None else message

    return read_again


def _length(scope: Scope, limit: int) -> int | None:
    """The `content-length`. Raises RequestTooLarge and UnsupportedEncoding."""
    length = None
    for name, value in scope["headers"]:
        if name == b"content-encoding" and value.strip().lower() not in PLAIN:
            raise UnsupportedEncoding(
                "The body has a `content-encoding`, but compressed bodies are not supported. Send "
                "it without compression."
            )
        if name == b"content-length" and value.isdigit():
            length = int(value[:20])
            if length > limit:
                raise _too_large(limit)
    return length


def _too_large(limit: int) -> RequestTooLarge:
    return RequestTooLarge(
        f"The body has more than {limit:,} bytes, the limit of this gateway. Shorten the messages "
        "or reduce the images, or ask the operator to raise TOOLGATE_MAX_BODY_BYTES."
    )


def from_json(content: bytes) -> Any:
    """The JSON value of a body. Raises InvalidRequest and RequestTooLarge."""
    if exceeds(content, MAX_VALUES):
        raise RequestTooLarge(
            f"The body has more than {MAX_VALUES:,} JSON values. Send fewer messages, tools or "
            "other entries."
        )
    try:
        return orjson.loads(content)
    except ValueError as error:
        if len(content) <= LARGE:
            try:
                # Accepts lone surrogates, NaN, and the other encodings of JSON.
                return json.loads(content)
            except (ValueError, RecursionError):
                pass
        raise InvalidRequest("The body is not valid JSON.") from error
