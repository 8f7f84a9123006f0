"""The record of one stored response, and its encrypted form.

No orjson: clients may send integers of any length. Lone surrogates need `json`.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic_core import to_json

from toolgate_core.errors import GatewayStopped, ResponsesUnavailable

from ..sealing import SealBroken, Sealer

PURPOSE = "response"
RESPONSE_MAX_BYTES = 8_000_000
"""Maximum size of one stored response with its input, compressed. Redis serves nobody
else while it copies one."""
INFLATED = 4
"""Most bytes of the JSON of a conversation, by those that a request may have. Records repeat tools
and instructions, which are no part of the conversation."""
IN_THREAD = 50_000
"""Size from which records are sealed and opened in a thread, so that other requests continue:
bytes of sealed records, or characters of a response."""
COMPRESSED_FROM = 256
"""Bytes from which a record is compressed."""
LEVEL = 1
"""zlib's fastest level. Higher ones save a few percent."""
PLAIN, DEFLATED = b"\0", b"\1"

Json = dict[str, Any]
Result = TypeVar("Result")


@dataclass(frozen=True)
class StoredResponse:
    """A response with the items that its own request sent. The items of earlier turns are in the
    records that `previous` leads to."""

    id: str
    body: Json
    """The response object as it was sent."""
    input: Sequence[Any]
    """The items of `input`; a text is a message of the user."""
    previous: str | None = None
    """The response that this one continues."""
    created: int = 0
    """Seconds since 1970."""

    @property
    def items(self) -> list[Any]:
        """The items of this turn: input and output."""
        return [*self.input, *self.body["output"]]


@dataclass(frozen=True)
class SealedResponse:
    """A record as a store holds it."""

    id: str
    previous: str | None
    record: bytes


async def sealed(sealer: Sealer, owner: str, response: StoredResponse) -> SealedResponse:
    large = is_large(response.body) or is_large(response.input)
    record = await apart(large, _sealed, sealer, owner, vars(response))
    return SealedResponse(response.id, response.previous, record)


async def apart(large: bool, work: Callable[..., Result], *arguments: Any) -> Result:
    """Return the result; of large work in a thread, so that other requests continue."""
    return await asyncio.to_thread(work, *arguments) if large else work(*arguments)


def _sealed(sealer: Sealer, owner: str, value: Json) -> bytes:
    text = _json(value)
    small = len(text) < COMPRESSED_FROM
    data = PLAIN + text if small else DEFLATED + zlib.compress(text, LEVEL)
    return sealer.seal(data, purpose=PURPOSE, owner=owner)


def _json(value: object) -> bytes:
    try:
        return to_json(value)
    except ValueError:  # for example half a surrogate pair
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        return text.encode("utf-8", "surrogatepass")


Kept = Literal["fleet", "process", "unavailable"]
"""Where responses are stored: in Redis for all gateways, or in this process. `unavailable` while
Redis does not respond."""
NotStored = Literal["unavailable", "too_large", "exists", "disabled"]
"""Why a response is not stored: Redis does not respond or refuses the write; it exceeds
8 MB (`RESPONSE_MAX_BYTES`) or the quota alone; there is a response with the ID that the client set;
TOOLGATE_RESPONSES_QUOTA is 0."""


def unavailable(reason: str) -> ResponsesUnavailable:
    return ResponsesUnavailable(
        f"Stored responses cannot be read or written, because {reason}. Send the request "
        "again, or with the whole conversation in 'input' and without 'background'.",
        retry_after=1,
    )


class RecordTooLarge(Exception):
    """The record has more bytes than may be read."""


def open_record(
    sealer: Sealer, owner: str, response_id: str, sealed: bytes, most: int
) -> tuple[StoredResponse, int]:
    """Return the response, and the size of its JSON in bytes, which is at most `most`. Raise
    RecordTooLarge, and SealBroken, also if the record is another response's."""
    data = sealer.open(sealed, purpose=PURPOSE, owner=owner)
    text = data[1:]
    if data.startswith(DEFLATED):
        text = zlib.decompressobj().decompress(text, most + 1)
        if len(text) > most:
            raise RecordTooLarge
    response = StoredResponse(**json.loads(text.decode("utf-8", "surrogatepass")))
    if response.id != response_id:
        raise SealBroken("The record is another response's.")
    return response, len(text)


def is_large(value: object) -> bool:
    """Return whether the texts of a value have more than IN_THREAD characters."""
    total, left = 0, [value]
    while left and total <= IN_THREAD:
        member = left.pop()
        if isinstance(member, str):
            total += len(member)
        elif isinstance(member, dict):
            left += member.values()
        elif isinstance(member, list | tuple):
            left += member
    return total > IN_THREAD


ACTIVE = ("queued", "in_progress")
"""The statuses of a response that has not ended."""
UNFINISHED = (*ACTIVE, "failed", "cancelled")
"""The statuses of a response that cannot be continued."""
STOPPED = GatewayStopped(
    "The gateway process that generated this response stopped before its end, or could not reach "
    "Redis. Create it again."
).body()["error"]


def is_active(response: StoredResponse) -> bool:
    return response.body.get("status") in ACTIVE


def failed(body: Json, error: Mapping[str, object]) -> Json:
    """Return the object of a response that failed before it had output."""
    fault = {"code": error["code"], "message": error["message"]}
    return {**body, "status": "failed", "error": fault}
