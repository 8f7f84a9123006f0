"""What a schema says about short values, and what of it a search for a completion still needs.

Masks do not tell a required member from an optional one, or which characters lead to the end of a
pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from toolgate_core.schema.regular.characters import has
from toolgate_core.schema.regular.parts import (
    Alternatives,
    Characters,
    Part,
    Repeated,
    Sequence,
    Unsupported,
)
from toolgate_core.schema.regular.reading import parse
from toolgate_core.schema.walk import subschemas
from toolgate_core.wire import Hints

from ...tokens.masks import BitmaskRow, TokenIds
from ...tokens.units import TokenIndex
from .detours import NOT_USED, Detour, detours
from .json_texts import Scan

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
MAX_LENGTH = 512
"""Maximum length of a string, in characters."""
MAX_SEARCHED = 32
"""Maximum number of patterns whose shortest text is searched for. Of 2,401 real schemas, none has
more than 18."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_-"
MAX_TEXTS = 96
MAX_LISTED = 16
"""Maximum number of values of an `enum` whose tokens are counted: the shortest ones."""

_Needed = tuple[str, int]
"""A pattern and a `minLength`."""


def hints_of(parameters: dict[str, Any], cost: Callable[[str], int] = len) -> list[Hints]:
    """The different hints that may lead to the shortest completion. `cost` of a text: the number
    of its tokens.

    What belongs to the shortest alternatives comes first. Something that also occurs outside of
    alternatives comes first, or it has its rank among these."""
    through = detours(parameters)
    names: dict[str, list[Detour]] = {}
    texts: dict[str, list[Detour]] = {}
    dependent: dict[str, None] = {}
    searched: dict[_Needed, str | None] = {}
    for _, schema in subschemas(parameters):
        if isinstance(schema, dict):
            detour = through.get(id(schema), NOT_USED)
            for name in _names(schema.get("required")):
                names.setdefault(name, []).append(detour)
            for text in texts_of(schema, cost, searched):
                texts.setdefault(text, []).append(detour)
            dependent |= dict.fromkeys(_dependent(schema))
    found = [_hints(names, texts, dependent, cost, rank) for rank in (_shortest, _shortest_chosen)]
    return [*dict.fromkeys(found)]


def _hints(
    names: dict[str, list[Detour]],
    texts: dict[str, list[Detour]],
    dependent: Iterable[str],
    cost: Callable[[str], int],
    rank: Callable[[list[Detour]], int],
) -> Hints:
    # An object that is open also accepts the names of those around it. Names that only others
    # require come last.
    inner_first = [*reversed(names)]
    required = sorted(inner_first, key=lambda name: rank(names[name]))
    kept = sorted(texts, key=lambda text: rank(texts[text]))[:MAX_TEXTS]
    return Hints(
        names=tuple(dict.fromkeys([*required, *dependent]))[:MAX_NAMES],
        # A string of one member may be valid for another one.
        texts=tuple(sorted(kept, key=lambda text: (rank(texts[text]), cost(text)))),
    )


def _shortest(found: list[Detour]) -> int:
    return min(found).length


def _shortest_chosen(found: list[Detour]) -> int:
    return min([each for each in found if each.chosen] or found).length


def _dependent(schema: dict[str, Any]) -> Iterator[str]:
    for keyword in ("dependentRequired", "dependencies"):
        if isinstance(schema.get(keyword), dict):
            for names in schema[keyword].values():
                yield from _names(names)


def _names(value: Any) -> Iterator[str]:
    return (
        (name for name in value if isinstance(name, str)) if isinstance(value, list) else iter(())
    )


def texts_of(
    schema: dict[str, Any], cost: Callable[[str], int], searched: dict[_Needed, str | None]
) -> Iterator[str]:
    """Yield short strings that a subschema may allow. `searched` are the patterns so far, with
    their texts."""
    if (form := FORMATS.get(str(schema.get("format")))) is not None:
        yield form
    values = [schema["const"]] if "const" in schema else schema.get("enum", ())
    listed = sorted((text for text in values if isinstance(text, str)), key=len)
    if listed:
        yield min(listed[:MAX_LISTED], key=cost)
    pattern, least = schema.get("pattern"), _count(schema.get("minLength"))
    if least > MAX_LENGTH:
        return
    if isinstance(pattern, str):
        if (pattern, least) not in searched and len(searched) < MAX_SEARCHED:
            searched[pattern, least] = _shortest_match(pattern, least)
        text = searched.get((pattern, least))
        if text is not None and len(text) <= MAX_LENGTH:
            yield text
    elif least > 0:
        yield "a" * least


@lru_cache(maxsize=512)
def _shortest_match(pattern: str, least: int) -> str | None:
    """A short text of at least this length that a pattern matches; None if none is found."""
    try:
        text = _text(parse(pattern))
    except (Unsupported, RecursionError):
        return None
    return text if len(text) >= least else None


def _text(part: Part) -> str:
    match part:
        case Characters(ranges):
            first = chr(ranges[0][0]) if ranges else _LETTERS[0]
            return next((each for each in _LETTERS if has(ranges, ord(each))), first)
        case Sequence(parts):
            return "".join(map(_text, parts))
        case Alternatives(options):
            return min(map(_text, options), key=len)
        case Repeated(one, least):
            return (_text(one) * min(least, MAX_LENGTH))[:MAX_LENGTH]
    return ""


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

    def __init__(self, members: list[tuple[str, bytes]], index: TokenIndex) -> None:
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
