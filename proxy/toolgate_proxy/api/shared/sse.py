"""Server-sent events whose data is JSON."""

from __future__ import annotations

LINE_ENDS = {
    character.encode(): f"\\u{ord(character):04x}".encode() for character in "\u0085\u2028\u2029"
}
"""Escapes for characters that JSON allows unescaped. Clients that decode a stream before they split
it into lines (such as httpx's `aiter_lines`) treat these characters as line ends."""


def with_escaped_line_ends(events: bytes) -> bytes:
    for character, escaped in LINE_ENDS.items():
        if character in events:
            events = events.replace(character, escaped)
    return events
