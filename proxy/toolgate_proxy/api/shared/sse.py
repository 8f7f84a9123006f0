"""Server-sent events, the form of streams in all APIs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

COMMENT = b": waiting\n\n"
"""Clients of server-sent events ignore comments."""
LINE_ENDS = {
    character.encode(): f"\\u{ord(character):04x}".encode() for character in "\u0085\u2028\u2029"
}
"""Escapes for characters that JSON allows unescaped. Clients that decode a stream before they split
it into lines (such as httpx's `aiter_lines`) treat these characters as line ends."""


def data_event(data: bytes) -> bytes:
    """Return an event with `data` on one line. In JSON, a newline between tokens is a space."""
    return b"data: " + data.replace(b"\n", b" ") + b"\n\n"


def typed_events(events: Iterable[Mapping[str, Any]]) -> bytes:
    """Return events that have their type in `event:` and in their data."""
    return with_escaped_line_ends(
        b"".join(
            b"event: " + event["type"].encode() + b"\ndata: " + orjson.dumps(event) + b"\n\n"
            for event in events
        )
    )


def with_escaped_line_ends(events: bytes) -> bytes:
    for character, escaped in LINE_ENDS.items():
        if character in events:
            events = events.replace(character, escaped)
    return events
