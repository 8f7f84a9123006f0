"""What a schema says about short values, and what of it a search for a completion still needs.

Masks do not tell a required member from an optional one, or which characters lead to the end of a
pattern.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from toolgate_core.schema.walk import subschemas
from toolgate_core.wire import Hints

from ...tokens.masks import BitmaskRow, TokenIds
from ...tokens.units import TokenIndex
from .json_texts import Scan
from .shortest_match import shortest_match

FORMATS = {
    "date": "2000-01-01",
    "time": "00:00:00Z",
    "date-time": "2000-01-01T00:00:00Z",
    "duration": "P1D",
    "email": "a@b.c",
    "hostname": "a",
    "ipv4": "1.1.1.1",
    "ipv6": "::1",
    "uri": "a:b",
    "uuid": "aaaaaaaa-aaaa-4aaa-aaaa-aaaaaaaaaaaa",
}
"""A short string of each format that masks enforce."""
MAX_NAMES = 256
MAX_FILLER = 256
"""Maximum number of characters by which a string is lengthened to its `minLength`."""
MAX_TEXTS = 96


def hints_of(parameters: dict[str, Any]) -> Hints:
    names: dict[str, None] = {}
    dependent: dict[str, None] = {}
    texts: dict[str, None] = {}
    for _, schema in subschemas(parameters):
        if isinstance(schema, dict):
            names |= dict.fromkeys(_names(schema.get("required")))
            dependent |= dict.fromkeys(_dependent(schema))
            texts |= dict.fromkeys(_texts(schema))
    return Hints(
        # An object that is open also accepts the names of those around it. Names that only others
        # require come last.
        names=tuple(dict.fromkeys([*reversed(names), *dependent]))[:MAX_NAMES],
        # A string of one member may be valid for another one. The shortest is tried first.
        texts=tuple(sorted([*texts][:MAX_TEXTS], key=len)),
    )


def _dependent(schema: dict[str, Any]) -> Iterator[str]:
    for keyword in ("dependentRequired", "dependencies"):
        if isinstance(schema.get(keyword), dict):
            for names in schema[keyword].values():
                yield from _names(names)


def _names(value: Any) -> Iterator[str]:
    return (
        (name for name in value if isinstance(name, str)) if isinstance(value, list) else iter(())
    )


def _texts(schema: dict[str, Any]) -> Iterator[str]:
    if (form := FORMATS.get(str(schema.get("format")))) is not None:
        yield form
    listed = [text for text in schema.get("enum", ()) if isinstance(text, str)]
    if listed:
        yield min(listed, key=len)
    pattern, text = schema.get("pattern"), ""
    if isinstance(pattern, str):
        if (found := shortest_match(pattern)) is None:
            return
        yield (text := found)
    missing = _count(schema.get("minLength")) - len(text)
    if 0 < missing <= MAX_FILLER:
        filler = text[-1:] or "a"
        yield text + filler * missing
        yield filler * missing + text


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else 0


_QUOTE, _BACKSLASH, _BRACKET = b'"\\['
_BEFORE_MEMBERS = (None, *b"{,")


class Needs:
    """The hints that remain in one search. Each object has a member once, so a name that was
    written is left out until the object ends."""

    def __init__(self, hints: Hints) -> None:
        self.names, self.texts = hints.names, hints.texts
        self.longest = ""
        """The longest text of the hints that was written."""
        self.opened = False
        """Whether the text ends with the quotation mark that opens a string."""
        self._written: list[set[str]] = [set()]
        self._brackets: list[int | None] = [None]
        """The opening brackets around the position. The outermost one is not known."""
        self._last: int | None = None
        """The last character outside strings, except white space and an opening quotation mark;
        None if it is not known."""

    @property
    def may_begin_member(self) -> bool:
        """Whether JSON allows a member here, or the name of a member whose quotation mark is
        written already; true if that is not known."""
        return self._last in _BEFORE_MEMBERS and self._brackets[-1] != _BRACKET

    def use(self, text: str) -> None:
        self.longest = max(self.longest, text, key=len)

    def is_written(self, name: str) -> bool:
        """Whether the object has a member of this name already."""
        return name in self._written[-1]

    def write(self, name: str) -> None:
        self._written[-1].add(name)

    def follow(self, text: bytes, scan: Scan) -> None:
        """Advance by `text`, which begins at `scan`."""
        in_string, escaped = scan.in_string, scan.escaped
        for byte in text:
            self.opened = byte == _QUOTE and not in_string
            if escaped:
                escaped = False
            elif byte == _QUOTE:
                in_string = not in_string
                if not in_string:
                    self._last = byte
            elif in_string:
                escaped = byte == _BACKSLASH
            elif byte in b"{[":
                self._written.append(set())
                self._brackets.append(byte)
                self._last = byte
            elif byte in b"}]":
                self._written = self._written[:-1] or [set()]
                self._brackets = self._brackets[:-1] or [None]
                self._last = byte
            elif byte not in b" \n\r\t":
                self._last = byte


class Beginnings:
    """The texts of the members that may come next, with all tokens with which they can begin. A
    schema can have hundreds, and a mask rules out nearly all of them at once."""

    def __init__(self, members: Sequence[tuple[str, bytes]], index: TokenIndex) -> None:
        """`members`: pairs of a name and a text with which a member of this name begins."""
        self._members = members
        first = [index.prefixes_of(text) for _, text in members]
        self._tokens: TokenIds = np.array([t for each in first for t in each], dtype=np.int64)
        self._owners = np.repeat(np.arange(len(first)), [len(each) for each in first])

    def allowed(self, row: BitmaskRow) -> Iterator[tuple[str, bytes]]:
        """The members that can begin with a token of the mask `row`, in their order."""
        bits = row[self._tokens >> 5] >> (self._tokens & 31) & 1
        for at in np.unique(self._owners[bits.nonzero()]):
            yield self._members[at]
