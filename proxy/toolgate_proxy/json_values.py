"""Bounds of JSON: on the number of values in a text, before it is parsed, and on its nesting."""

from __future__ import annotations

from itertools import chain
from typing import Any

from toolgate_core.errors import InvalidRequest

MAX_VALUES = 500_000
"""Maximum number of JSON values in a body: 50 for each of 10,000 tools. A value of two bytes takes
a hundred bytes of memory once it is parsed, and the parser does not let other requests continue."""
MAX_DEPTH = 200
"""Maximum nesting of a body, in levels of JSON, as pydantic's parser has it. Schemas have a lower
limit of their own."""
SEPARATORS = b",[{"
WINDOW = 2**14
"""Bytes in which separators are counted at once."""
BLOCK = 2**18
"""Bytes that are looked at together, without a copy of the whole text."""


def exceeds(content: bytes | bytearray, most: int) -> bool:
    """Whether a JSON text has more than `most` values.

    Each value except the first one in an array or object follows a comma, so commas and opening
    brackets bound the number of values. Those inside strings are left out only if there are too
    many, because that takes longer."""
    if len(content) <= most or not _has_more(content, most):
        return False
    found, quotes, begun = 0, 0, b""
    for at in range(0, len(content), BLOCK):
        block = begun + content[at : at + BLOCK]
        begun = b"\\" * ((len(block) - len(block.rstrip(b"\\"))) % 2)  # of an escape sequence
        parts = block.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        outside = b"".join(parts[quotes % 2 :: 2])
        found += sum(map(outside.count, (b",", b"[", b"{")))
        quotes += len(parts) - 1
        if found > most or quotes >= 4 * most:
            return True
    return False


def _has_more(content: bytes | bytearray, most: int) -> bool:
    """Whether there are more than `most` separators. They are counted from one to the end of its
    window, because `find` passes a long text without any much faster than `count`."""
    found = 0
    for separator in SEPARATORS:
        at = content.find(separator)
        while at >= 0 and found <= most:
            found += content.count(separator, at, at + WINDOW)
            at = content.find(separator, at + WINDOW)
    return found > most


def check_nesting(value: object) -> None:
    """Raise InvalidRequest for a value with more than MAX_DEPTH levels that are not empty."""
    level: list[Any] = [[value]]
    for _ in range(MAX_DEPTH + 1):
        inner = chain.from_iterable(v.values() if isinstance(v, dict) else v for v in level)
        level = [each for each in inner if isinstance(each, dict | list) and each]
        if not level:
            return
    raise InvalidRequest(
        f"The body has more than {MAX_DEPTH} levels of nested JSON. Use a flatter structure."
    )
