"""Upper bound on the number of values in a JSON text, before it is parsed."""

from __future__ import annotations

MAX_VALUES = 500_000
"""Maximum number of JSON values in a body: 50 for each of 10,000 tools. A value of two bytes takes
a hundred bytes of memory once it is parsed, and the parser does not let other requests continue."""
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
    values, places = Values(), range(0, len(content), BLOCK)
    return any(values.add(bytes(content[at : at + BLOCK])) > most for at in places)


class Values:
    """Counts the values of a JSON text, or of several, that arrives in blocks."""

    def __init__(self) -> None:
        self._found = self._quotes = 0
        self._begun = b""
        """The beginning of an escape sequence."""

    def add(self, block: bytes) -> int:
        """Return the number of values so far."""
        block = self._begun + block
        self._begun = b"\\" * ((len(block) - len(block.rstrip(b"\\"))) % 2)
        parts = block.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        outside = b"".join(parts[self._quotes % 2 :: 2])
        self._found += sum(map(outside.count, (b",", b"[", b"{")))
        self._quotes += len(parts) - 1
        return max(self._found, self._quotes // 4)


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
