"""Kinds of strings: those that are in the same ones of several languages."""

from __future__ import annotations

from collections.abc import Sequence

from .algebra import Algebra
from .characters import Ranges, partition
from .languages import Builder, Language, characters_of
from .syntax import Unsupported

MAX_STEPS = 20_000
"""Maximum number of strings that are looked at."""
_PREFERRED = tuple(map(ord, "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_-"))


def shortest_of_each_kind(languages: Sequence[Language]) -> dict[tuple[bool, ...], str]:
    """By kind, which says for each language whether it has the string: the first of the shortest
    strings. Kinds of long strings may be missing. Of characters that the languages do not tell
    apart, strings have a letter or a digit if possible. Raises Unsupported if a language is not
    regular or too large."""
    parts = partition(character for each in languages for character in characters_of(each))
    algebra = Algebra(len(parts))
    builder = Builder(algebra, parts)
    characters = [chr(_character(ranges)) for ranges in parts]
    order = sorted(range(len(parts)), key=lambda at: _rank(characters[at]))
    try:
        start = tuple(builder.language(each) for each in languages)
    except RecursionError as error:
        raise Unsupported("nested too deeply") from error
    texts = {start: ""}
    found: dict[tuple[bool, ...], str] = {}
    pending = [start]
    for state in pending:
        found.setdefault(tuple(map(algebra.is_nullable, state)), texts[state])
        for at in order:
            following = tuple(algebra.derivative(each, at) for each in state)
            if following not in texts and len(texts) < MAX_STEPS:
                texts[following] = texts[state] + characters[at]
                pending.append(following)
    return found


def _character(ranges: Ranges) -> int:
    for preferred in _PREFERRED:
        if any(low <= preferred <= high for low, high in ranges):
            return preferred
    return ranges[0][0]


def _rank(character: str) -> int:
    code = ord(character)
    return _PREFERRED.index(code) if code in _PREFERRED else len(_PREFERRED)
