"""Halves of surrogate pairs in the values of requests.

JSON's escapes can write one half of a pair (`\\ud83d`), for example if a client cut a text inside
an emoji. It is not valid Unicode, so no message to a backend can have it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .schema.walk import values

_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class HalfPair:
    pointer: str
    """JSON Pointer of the text in the value. That of a name is the pointer of its member."""
    code: str
    """As an escape of JSON."""
    offset: int
    """Number of characters before it."""

    @property
    def problem(self) -> str:
        """A noun phrase for an error message."""
        place = f" at {self.pointer}" if self.pointer else ""
        return (
            f"half of a surrogate pair ({self.code} after {self.offset} characters of the "
            f"text{place}), which is not valid Unicode"
        )


def half_pair_in(value: Any) -> HalfPair | None:
    """The first one in a text or a name of a JSON value."""
    for pointer, each in values(value):
        name = pointer.rpartition("/")[2]
        for text in (name, each):
            found = _HALF.search(text) if isinstance(text, str) else None
            if found is not None:
                shown = pointer.encode(errors="backslashreplace").decode()
                return HalfPair(shown, f"\\u{ord(found[0]):04x}", found.start())
    return None
