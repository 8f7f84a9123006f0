"""Upper bound on the number of values in a JSON text, before it is parsed."""

from __future__ import annotations


def exceeds(content: bytes | bytearray, most: int) -> bool:
    """Whether a JSON text has more than `most` values.

    Each value except the first one in an array or object follows a comma, so commas and opening
    brackets bound the number of values. Those inside strings are left out only if there are too
    many, because that takes longer."""
    if len(content) <= most or _separators(content) <= most:
        return False
    parts = content.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"', 4 * most + 1)
    return len(parts) > 4 * most or _separators(b"".join(parts[::2])) > most


def _separators(content: bytes | bytearray) -> int:
    return sum(content.count(each) for each in (b",", b"[", b"{"))
