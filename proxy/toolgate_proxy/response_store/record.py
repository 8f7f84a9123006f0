"""The record of one stored response, and its encrypted form.

`json` and not orjson: clients may send integers of any length and lone surrogates.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from toolgate_core.errors import GatewayStopped

from ..sealing import SealBroken, Sealer

PURPOSE, EVENTS_PURPOSE = "response", "response events"
RESPONSE_MAX_BYTES = 8_000_000
"""Maximum size of one stored response with its input and events, compressed. Redis
serves nobody else while it copies one."""
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


@dataclass(frozen=True)
class StoredResponse:
    """A response that has ended, with the items that its own request sent. The items of earlier
    turns are in the records that `previous` leads to."""

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
    events: bytes = b""
    """The stream's events, if the response was streamed."""

    @property
    def size(self) -> int:
        return len(self.record) + len(self.events)


@dataclass
class EventLog:
    """The events of a stream between its first two and its last one. Deltas that follow each other
    differ in their text only, so they are one entry with many texts."""

    start: Json
    """The response object of the first events."""
    entries: list[Json] = field(default_factory=list)

    def add(self, event: Mapping[str, Any]) -> None:
        if not event["type"].endswith(".delta") or event.get("logprobs"):
            self.entries.append(dict(event))
            return
        rest = {**event, "delta": ""}  # its place, so that a replay has the same bytes
        last = self.entries[-1] if self.entries else {}
        if last.get("rest") == rest:
            last["deltas"].append(event["delta"])
        else:
            self.entries.append({"rest": rest, "deltas": [event["delta"]]})

    def events(self) -> list[Json]:
        made: list[Json] = []
        for entry in self.entries:
            if "rest" in entry:
                made += ({**entry["rest"], "delta": delta} for delta in entry["deltas"])
            else:
                made.append(entry)
        return made


def seal(
    sealer: Sealer, owner: str, response: StoredResponse, log: EventLog | None
) -> SealedResponse:
    events = b""
    if log is not None:
        values = {"id": response.id, **vars(log)}
        events = seal_json(sealer, owner, EVENTS_PURPOSE, values)
    record = seal_json(sealer, owner, PURPOSE, vars(response))
    return SealedResponse(response.id, response.previous, record, events)


async def sealed(
    sealer: Sealer, owner: str, response: StoredResponse, log: EventLog | None
) -> SealedResponse:
    """As `seal`; in a thread if the response is large, so that other requests continue."""
    work = partial(seal, sealer, owner, response, log)
    large = is_large(response.body) or is_large(response.input)
    return await asyncio.to_thread(work) if large else work()


def seal_json(sealer: Sealer, owner: str, purpose: str, value: Json) -> bytes:
    return sealer.seal(_compressed(_json(value)), purpose=purpose, owner=owner)


def _json(value: object) -> bytes:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


class RecordTooLarge(Exception):
    """The record has more bytes than may be read."""


def open_record(
    sealer: Sealer, owner: str, response_id: str, sealed: bytes, most: int
) -> tuple[StoredResponse, int]:
    """Return the response, and the size of its JSON in bytes, which is at most `most`. Raises
    RecordTooLarge, and SealBroken, also if the record is another response's."""
    values, size = open_json(sealer, owner, PURPOSE, sealed, most)
    response = StoredResponse(**values)
    if response.id != response_id:
        raise SealBroken("The record is another response's.")
    return response, size


def open_events(sealer: Sealer, owner: str, response_id: str, sealed: bytes, most: int) -> EventLog:
    """Open sealed events. Raises RecordTooLarge and SealBroken."""
    values, _ = open_json(sealer, owner, EVENTS_PURPOSE, sealed, most)
    if values.pop("id") != response_id:
        raise SealBroken("The events are another response's.")
    return EventLog(**values)


def open_json(
    sealer: Sealer, owner: str, purpose: str, sealed: bytes, most: int
) -> tuple[Json, int]:
    """Return the value, and the size of its JSON in bytes, which is at most `most`. Raises
    RecordTooLarge and SealBroken."""
    data = sealer.open(sealed, purpose=purpose, owner=owner)
    text = data[1:]
    if data.startswith(DEFLATED):
        text = zlib.decompressobj().decompress(text, most + 1)
        if len(text) > most:
            raise RecordTooLarge
    value: Json = json.loads(text.decode("utf-8", "surrogatepass"))
    return value, len(text)


def _compressed(text: bytes) -> bytes:
    return PLAIN + text if len(text) < COMPRESSED_FROM else DEFLATED + zlib.compress(text, LEVEL)


def is_large(value: object) -> bool:
    """Return whether the texts of a value have more than IN_THREAD characters."""
    total, left = 0, [value]
    while left and total <= IN_THREAD:
        each = left.pop()
        if isinstance(each, str):
            total += len(each)
        elif isinstance(each, dict):
            left += each.values()
        elif isinstance(each, list | tuple):
            left += each
    return total > IN_THREAD


ACTIVE = ("queued", "in_progress")
"""The statuses of a response that has not ended."""
UNFINISHED = (*ACTIVE, "failed", "cancelled")
"""The statuses of a response that can't be continued."""
STOPPED = GatewayStopped(
    "The gateway process that generated this response stopped before its end, or could not reach "
    "Redis. Create it again."
).body()["error"]


def is_active(response: StoredResponse) -> bool:
    return response.body.get("status") in ACTIVE


def failed(body: Json, error: Mapping[str, object]) -> Json:
    """Return the object of a response that failed before it had output."""
    shown = {"code": error["code"], "message": error["message"]}
    return {**body, "status": "failed", "error": shown}


def gateway_stopped(body: Json) -> Json:
    return failed(body, STOPPED)


def cancelled(body: Json) -> Json:
    return {**body, "status": "cancelled"}
