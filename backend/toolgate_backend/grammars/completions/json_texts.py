"""Texts of JSON: whether they end inside a string, which ones end a value, and short values."""

from __future__ import annotations

from dataclasses import dataclass

MAX_RESTS = 24
"""Number of rests of a hint that are tried inside a string."""
SHORT_VALUES = (b'""', b"[]", b"{}", b"null", b"true", b"0", b"1")
"""Values of JSON that are tried before those of the hints, which belong to certain members."""


def rests_of(text: str) -> list[int]:
    """Where the rests of a text that are tried begin, the shortest rest first."""
    offsets = range(len(text))
    if len(text) <= MAX_RESTS:
        return [*reversed(offsets)]
    return [*reversed(offsets[-MAX_RESTS // 2 :]), *reversed(offsets[: MAX_RESTS // 2])]


def closes_string(text: bytes) -> bool:
    """Return whether the text ends the string that it is written in, and perhaps the values around
    it."""
    return text.startswith(b'"') and not text[1:].strip(b"}]\n")


def closes_container(text: bytes) -> bool:
    """Return whether the text, outside a string, ends values."""
    return bool(text) and not text.strip(b"}]\n") and text != b"\n"


def closes_value(text: bytes) -> bool:
    """Return whether the text, outside a string, ends values or is the empty string."""
    rest = text.removeprefix(b'""')
    return bool(text) and not rest.strip(b"}]\n") and text != b"\n"


def separates(text: bytes) -> bool:
    """Return whether the text, outside a string, ends a value before another one."""
    return text in (b",", b", ")


@dataclass(frozen=True)
class Scan:
    """Whether the JSON text so far ends inside a string, and whether its last character is a
    backslash."""

    in_string: bool = False
    escaped: bool = False

    def after(self, text: bytes) -> Scan:
        if b'"' not in text and b"\\" not in text:
            return Scan(self.in_string) if self.escaped and text else self
        in_string, escaped = self.in_string, self.escaped
        for byte in text:
            if escaped:
                escaped = False
            elif in_string and byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                in_string = not in_string
        return Scan(in_string, escaped)
