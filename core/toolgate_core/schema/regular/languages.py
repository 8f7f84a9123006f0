"""Sets of strings, each a part of a pattern that matches its strings as a whole.

Questions about a set are answered by its automaton. The answer is None if that would be too large,
or if a pattern is not regular.
"""

from __future__ import annotations

from functools import lru_cache

from .algebra import Algebra, Expression, automaton
from .characters import Ranges, has, partition
from .reading import parse
from .syntax import (
    ANYTHING,
    Alternatives,
    Both,
    Characters,
    Other,
    Part,
    Repeated,
    Sequence,
    Unsupported,
    every_part,
)
from .text import text_of
from .whole import whole
from .writing import pattern_of

MAX_REPEATED = 1_000
_PREFERRED = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_-"


@lru_cache(maxsize=512)
def matching(pattern: str) -> Part | None:
    """The strings that a pattern of JSON Schema matches; None if it is not regular."""
    try:
        part = whole(parse(pattern))
        repeated = [each for each in every_part(part) if isinstance(each, Repeated)]
    except (Unsupported, RecursionError):
        return None
    is_large = any(max(each.least, each.most or 0) > MAX_REPEATED for each in repeated)
    return None if is_large else part


def all_of(*parts: Part | None) -> Part | None:
    """The strings that are in all of these sets."""
    known = tuple(part for part in parts if part is not None)
    return Both(known) if len(known) == len(parts) else None


def long(least: int, most: int | None = None) -> Part:
    """The strings of these lengths."""
    return Repeated(ANYTHING.part, least, most)


@lru_cache(maxsize=512)
def is_empty(part: Part | None) -> bool | None:
    try:
        if part is not None and not any(map(_may_exclude, every_part(part))):
            return False
        algebra, expression, _ = _expression(part)
        return automaton(algebra, expression).is_empty
    except (Unsupported, RecursionError):
        return None


@lru_cache(maxsize=512)
def plain_pattern(part: Part | None) -> str | None:
    """A pattern of exactly these strings, in the syntax of all engines. It has no look-around."""
    try:
        if part is not None and not any(map(_is_combined, every_part(part))):
            return f"^(?:{text_of(part)})$"
        return pattern_of(*_expression(part))
    except (Unsupported, RecursionError):
        return None


def _may_exclude(part: Part) -> bool:
    """Return whether a part can leave a set without strings."""
    return _is_combined(part) or (isinstance(part, Characters) and not part.every)


def _is_combined(part: Part) -> bool:
    return isinstance(part, Both | Other)


def plain_patterns(pattern: str) -> list[str] | None:
    """Patterns without look-around that together match exactly the strings of a pattern."""
    part = matching(pattern)
    if (one := plain_pattern(part)) is not None:
        return [one]
    found = [plain_pattern(each) for each in (part.parts if isinstance(part, Both) else (part,))]
    known = [each for each in found if each is not None]
    return known if len(known) == len(found) else None


def shortest_of(part: Part | None, steps: int) -> str | None:
    """The first of the shortest strings, of letters and digits if possible; None if none is found
    among `steps` strings. Raises Unsupported if it is not regular or too large."""
    try:
        algebra, start, parts = _expression(part)
    except RecursionError as error:
        raise Unsupported("nested too deeply") from error
    characters = sorted(enumerate(map(_character, parts)), key=lambda each: _rank(each[1]))
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


def _expression(part: Part | None) -> tuple[Algebra, Expression, list[Ranges]]:
    """The expression of a set, and the sets that it divides characters into."""
    if part is None:
        raise Unsupported("it is not regular")
    found = (each for each in every_part(part) if isinstance(each, Characters))
    parts = partition(each.every for each in found)
    algebra = Algebra(len(parts))
    return algebra, _Builder(algebra, parts).expression(part), parts


class _Builder:
    """Makes the expressions of parts."""

    def __init__(self, algebra: Algebra, parts: list[Ranges]) -> None:
        self._algebra = algebra
        self._firsts = [ranges[0][0] for ranges in parts]

    def expression(self, part: Part) -> Expression:
        algebra = self._algebra
        match part:
            case Characters():
                return self._some(part.every)
            case Sequence(parts):
                expression = algebra.empty
                for each in reversed(parts):
                    expression = algebra.sequence(self.expression(each), expression)
                return expression
            case Alternatives(options):
                return algebra.either([self.expression(each) for each in options])
            case Repeated(inside, least, most):
                return algebra.repeated(self.expression(inside), least, most)
            case Both(parts):
                return algebra.both([self.expression(each) for each in parts])
            case Other(inside):
                return algebra.complement(self.expression(inside))
        raise Unsupported("it has an anchor inside")

    def _some(self, ranges: Ranges) -> Expression:
        characters = 0
        for at, first in enumerate(self._firsts):
            if any(low <= first <= high for low, high in ranges):
                characters |= 1 << at
        return self._algebra.some(characters)
