"""Texts of JSON that end a value, and short values."""

from __future__ import annotations

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
    """Whether the text ends the string that it is written in, and perhaps the values around it."""
    return text.startswith(b'"') and not text[1:].strip(b"}]\n")


def closes_container(text: bytes) -> bool:
    """Whether the text, outside a string, ends values."""
    return bool(text) and not text.strip(b"}]\n") and text != b"\n"


def closes_value(text: bytes) -> bool:
    """Whether the text, outside a string, ends values or is the empty string."""
    rest = text.removeprefix(b'""')
    return bool(text) and not rest.strip(b"}]\n") and text != b"\n"


def separates(text: bytes) -> bool:
    """Whether the text, outside a string, ends a value before another one."""
    return text in (b",", b", ")
