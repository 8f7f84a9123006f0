"""The shortest string of a language."""

from __future__ import annotations

from .algebra import Algebra
from .characters import Ranges, has, partition
from .languages import Builder, Language, characters_of
from .syntax import Unsupported

_PREFERRED = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_-"


def shortest_of(language: Language, steps: int) -> str | None:
    """The first of the shortest strings, of letters and digits if possible; None if none is found
    among `steps` strings. Raises Unsupported if the language is not regular or too large."""
    parts = partition(characters_of(language))
    algebra = Algebra(len(parts))
    characters = sorted(enumerate(map(_character, parts)), key=lambda each: _rank(each[1]))
    try:
        start = Builder(algebra, parts).language(language)
    except RecursionError as error:
        raise Unsupported("nested too deeply") from error
    texts, pending = {start: ""}, [start]
    for state in pending:
        if algebra.is_nullable(state):
            return texts[state]
        for at, character in characters:
            following = algebra.derivative(state, at)
            if following not in texts and len(texts) < steps:
                texts[following] = texts[state] + character
                pending.append(following)
    return None


def _character(ranges: Ranges) -> str:
    return next((each for each in _PREFERRED if has(ranges, ord(each))), chr(ranges[0][0]))


def _rank(character: str) -> int:
    return _PREFERRED.index(character) if character in _PREFERRED else len(_PREFERRED)
