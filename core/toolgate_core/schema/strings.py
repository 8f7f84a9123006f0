"""Regular expressions made for masks, and which of those in schemas a mask can hold."""

from __future__ import annotations

import re
from collections.abc import Iterable

_BEYOND = re.compile(r"\(\?(?:[=!]|<[=!])|\\(?:[bB1-9]|k<)")
"""Look-around, word boundaries and back-references: no automaton for them in llguidance."""
_ESCAPED = re.compile(r"\\\\")
MAX_EXCLUDING = 20_000
"""Characters of a pattern that excludes strings."""
_ANY = r"[\s\S]"


def holdable(pattern: str) -> bool:
    """Whether a mask can hold this pattern. A False may be wrong (`[\\b]`), a True is tried."""
    return _BEYOND.search(_ESCAPED.sub("", pattern)) is None


def none_of(texts: Iterable[str]) -> str | None:
    """A pattern for every string but these; None where it would grow too large.

    There is no complement in JSON Schema's regular expressions, but that of a finite set is small:
    a string leaves the tree of the set's prefixes by ending at one that is not in the set, or by
    going on with a character that nothing in the set has there.
    """
    excluded = frozenset(texts)
    following: dict[str, set[str]] = {"": set()}
    for text in excluded:
        for length, character in enumerate(text):
            following.setdefault(text[:length], set()).add(character)
        following.setdefault(text, set())
    ways: list[str] = []
    size = 0
    for prefix, characters in following.items():
        other = f"[^{''.join(map(_escaped, sorted(characters)))}]" if characters else _ANY
        way = f"{''.join(map(_escaped, prefix))}(?:{other}{_ANY}*)"
        ways.append(way if prefix in excluded else f"{way}?")
        size += len(way)
        if size > MAX_EXCLUDING:
            return None
    return f"^(?:{'|'.join(ways)})$"


def _escaped(character: str) -> str:
    plain = character.isalnum() or ord(character) > 0x9F
    return character if plain else rf"\x{ord(character):02x}"
