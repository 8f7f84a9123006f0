"""Reading, parsing and replaying a request's body, within limits on its time and size."""

from __future__ import annotations

import asyncio
import json
from io import BytesIO
from itertools import chain
from typing import Any

from starlette.types import Message, Receive, Scope

from toolgate_core.errors import (
    ClientDisconnected,
    InvalidRequest,
    RequestTimeout,
    RequestTooLarge,
    UnsupportedEncoding,
)

from ..api.shared.parameter import CHAT_TABLE, unknown
from ..api.shared.tools import MAX_TOOLS
from ..api.shared.value_types import is_token_type
from ..json_values import WITHOUT_TEXTS, read_object
from ..limits.key_bounds import BodyReservation

IN_THREAD = 262_144
"""Size in bytes from which a body is parsed and checked in a thread, so that the event loop can
serve others between the steps: each of them takes a few milliseconds for a body of this size, while
a switch of threads costs a tenth of one."""
PLAIN = (b"", b"identity")
READ = "toolgate.body"
"""Key in the ASGI scope of a RequestBody that was read before."""
RESERVED = "toolgate.reserved"
"""Key in the ASGI scope of a function that ends the reservation of such a body."""
TOKEN_PARAMETERS = frozenset(name for name, row in CHAT_TABLE.items() if is_token_type(row.type))
MAX_MODEL_NAME = 256
"""Maximum length of a model's name, in characters. LiteLLM searches and logs it many times."""
MAX_ENTRIES = 10_000
"""Maximum number of entries of an array, and of members of an object, at the top of a body, and of
the parts and calls of all its messages. `tools` have a bound of their own."""
MAX_NAME = 128
"""Maximum length of the name of a parameter, in characters."""


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

    async def parsed(self, scope: Scope) -> dict[str, Any]:
        """Return the body's JSON object. Refuse forms. Raise InvalidRequest and RequestTooLarge."""
        if self._values is not None:
            return self._values
        for name, value in scope["headers"]:
            if name == b"content-type" and b"form" in value.lower():
                raise InvalidRequest(
                    "The body must be JSON, sent as `content-type: application/json`."
                )
        if self.size > IN_THREAD:
            return await asyncio.to_thread(_read_values, self.content)
        return _read_values(self.content)

    @property
    def content(self) -> bytes:
        return json.dumps(self._values).encode() if self._content is None else self._content

    def free(self) -> None:
        """The body is not read again."""
        self._content, self._values = b"", None

    def again(self, receive: Receive) -> Receive:
        """Return a `receive` that replays the body and then continues with the client's next
        messages. The body can be replayed once."""
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
    """`reservation`: is made for the body; the caller closes it. Raise RequestTooLarge for a body
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
    """Return the `content-length`. Raise RequestTooLarge and UnsupportedEncoding."""
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


def _read_values(content: bytes) -> dict[str, Any]:
    values = read_object(content)
    check_bounds(values)
    return values


def check_bounds(values: dict[str, Any]) -> None:
    """Check the number of entries in each parameter, and of parts in its entries.
    `allowed_token_ids` and `logit_bias` have bounds by the vocabulary. Raise InvalidRequest."""
    for name, value in values.items():
        if len(name) > MAX_NAME:
            raise unknown(name, CHAT_TABLE)
        if not isinstance(value, dict | list) or name in TOKEN_PARAMETERS:
            continue
        counts = [(len(value), "entries", MAX_TOOLS if name == "tools" else MAX_ENTRIES)]
        if isinstance(value, list) and name not in WITHOUT_TEXTS:
            counts.append((_parts(value), "parts and calls", MAX_ENTRIES))
        for count, what, most in counts:
            if count > most:
                raise InvalidRequest(
                    f"{name!r} has {count:,} {what}, but at most {most:,} are allowed. Remove "
                    "some.",
                    param=name,
                )


def _parts(entries: list[Any]) -> int:
    """Return the number of entries in the arrays of `entries`, and in the arrays of those: parts
    and calls of messages, and parts of results."""
    number = 0
    for _ in range(2):
        members = chain.from_iterable(each.values() for each in entries if isinstance(each, dict))
        entries = [*chain.from_iterable(each for each in members if isinstance(each, list))]
        number += len(entries)
    return number


def check_model_name(model: str) -> None:
    """Raise InvalidRequest."""
    if len(model) > MAX_MODEL_NAME:
        raise InvalidRequest(
            f"'model' has {len(model):,} characters, but names of models have at most "
            f"{MAX_MODEL_NAME}. Correct it.",
            param="model",
        )
