"""Reading, parsing and replaying a request's body, within limits on its time and size."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pydantic_core
from starlette.types import Message, Receive, Scope

from toolgate_core.errors import (
    ClientDisconnected,
    InvalidRequest,
    RequestTimeout,
    RequestTooLarge,
    UnsupportedEncoding,
)

from ...json_values import MAX_VALUES, check_nesting, exceeds
from ...limits.key_bounds import BodyReservation

IN_THREAD = 262_144
"""Size in bytes from which a body is parsed and checked in a thread, so that the event loop can
serve others between the steps: each of them takes a few milliseconds for a body of this size, while
a switch of threads costs a tenth of one."""
LARGE = 1_000_000
"""Size in bytes from which bodies are only parsed by the parser that makes no copy of them."""
AS_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
LONG_INTEGER = b"0" * 19
"""The digits that an integer of more than 64 bits has at least."""
PLAIN = (b"", b"identity")
READ = "toolgate.body"
"""Key in the ASGI scope of a RequestBody that was read before."""
RESERVED = "toolgate.reserved"
"""Key in the ASGI scope of a function that ends the reservation of such a body."""


Check = Callable[[dict[str, Any]], None]
"""Checks parameters. Raises ToolgateError."""


class RequestBody:
    """The bytes of a body, or its values if they were parsed before. Each takes as much memory as
    the body, so `free` them as soon as possible."""

    def __init__(self, content: bytes = b"", values: dict[str, Any] | None = None):
        self.size = len(content)
        self._content: bytes | None = content if values is None else None
        self._values = values

    @classmethod
    def of_values(cls, values: dict[str, Any], size: int) -> RequestBody:
        """`size`: of the body from which `values` were parsed, in bytes."""
        body = cls(values=values)
        body.size = size
        return body

    async def parsed(self, scope: Scope, check: Check) -> dict[str, Any]:
        """The body's JSON object, for which `check` raises no error. Accepts the same JSON as
        LiteLLM, but no forms. Raises InvalidRequest and RequestTooLarge."""
        if self._values is not None:
            return self._values
        for name, value in scope["headers"]:
            if name == b"content-type" and b"form" in value.lower():
                raise InvalidRequest(
                    "The body must be JSON, sent as `content-type: application/json`."
                )
        if self.size > IN_THREAD:
            return await asyncio.to_thread(_object, self.content, check)
        return _object(self.content, check)

    @property
    def content(self) -> bytes:
        return json.dumps(self._values).encode() if self._content is None else self._content

    def free(self) -> None:
        """The body is not read again."""
        self._content, self._values = b"", None

    def again(self, receive: Receive) -> Receive:
        """A `receive` that replays the body and then continues with the client's next messages. The
        body can be replayed once."""
        replayed = False

        async def read_again() -> Message:
            nonlocal replayed
            if replayed:
                return await receive()
            replayed = True
            content = self.content
            self.free()
            return {"type": "http.request", "body": content, "more_body": False}

        return read_again


async def read(
    scope: Scope,
    receive: Receive,
    *,
    limit: int,
    seconds: float,
    reservation: BodyReservation | None = None,
) -> RequestBody:
    """`reservation`: is made for the body; the caller closes it. Raises RequestTooLarge for a body
    of more than `limit` bytes, RequestTimeout if it takes more than `seconds`, UnsupportedEncoding
    for a compressed body, RateLimited if there is no room for it, and ClientDisconnected if the
    client leaves before its end."""
    length = _length(scope, limit)
    size, received = 0, BytesIO()  # whose value is not a copy
    try:
        async with asyncio.timeout(seconds):
            if reservation is not None and length:
                await reservation.wait(length)
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnected("The client disconnected before the end of its body.")
                size += received.write(message.get("body", b""))
                if size > limit:
                    raise _too_large(limit)
                if reservation is not None and size > reservation.size:
                    reservation.resize(size)
                if not message.get("more_body", False):
                    return RequestBody(received.getvalue())
    except TimeoutError as error:
        if reservation is not None and length and not reservation.size:
            raise reservation.refusal() from error
        raise RequestTimeout(
            f"The body did not arrive within {seconds:g} s (TOOLGATE_BODY_TIMEOUT). Send the "
            "request again, with a smaller body or over a faster connection."
        ) from error


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
    has_long = LONG_INTEGER in content.translate(AS_ZEROS)
    try:
        # Refuses more than MAX_DEPTH levels, and does not copy its input.
        read = pydantic_core.from_json(content, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        try:
            # Accepts lone surrogates, NaN, and the other encodings of JSON.
            read, has_long = None if len(content) > LARGE else json.loads(content), True
        except (ValueError, RecursionError):
            read = None
        if read is None:
            raise InvalidRequest("The body is not valid JSON.") from error
        check_nesting(read)
    return _without_long_integers(read) if has_long else read


def _object(content: bytes, check: Check) -> dict[str, Any]:
    values = from_json(content)
    if not isinstance(values, dict):
        raise InvalidRequest("The body must be a JSON object.")
    check(values)
    return values


def _without_long_integers(value: Any) -> Any:
    """The value with floats in place of integers of more than 64 bits, which orjson can't write.
    Bounds of a schema become no wider. Raises InvalidRequest for those that are too large for
    floats, and for values of an `enum` or `const` that no float is equal to."""
    waiting = [("", value)]
    while waiting:
        name, each = waiting.pop()
        named = each.items() if isinstance(each, dict) else ()
        members = [*named, *(enumerate(each) if isinstance(each, list) else ())]
        for at, member in members:
            place = at if isinstance(at, str) else name
            if isinstance(member, dict | list):
                waiting.append((place, member))
            elif isinstance(member, int) and not -(2**63) <= member < 2**64:
                each[at] = _as_float(member, place)
    return value


def _as_float(number: int, place: str) -> float:
    try:
        nearest = float(number)
    except OverflowError as error:
        raise InvalidRequest(
            "The body has a number that is too large. Use a smaller one."
        ) from error
    if place in ("enum", "const") and nearest != number:
        raise InvalidRequest(
            f"`{place}` has the integer {number}, which has more than 64 bits. Use a string, or an "
            "integer of 64 bits."
        )
    if place in ("maximum", "exclusiveMaximum") and nearest > number:
        return math.nextafter(nearest, -math.inf)
    if place in ("minimum", "exclusiveMinimum") and nearest < number:
        return math.nextafter(nearest, math.inf)
    return nearest
