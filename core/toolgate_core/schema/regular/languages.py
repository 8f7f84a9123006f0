"""Languages: the strings of patterns, lengths and lists, and combinations of these.

Questions about a language are answered by its automaton. The answer is None if that would be too
large, or if a pattern is not regular.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from .algebra import Algebra, Expression
from .automaton import automaton
from .characters import ANY, Ranges, only, partition
from .reading import parse
from .syntax import (
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
from .whole import whole
from .writing import pattern_of

MAX_REPEATED = 1_000


class Language:
    """A set of strings. Equal definitions are equal."""

    def __and__(self, other: Language) -> Language:
        return Intersection((self, other))

    def __invert__(self) -> Language:
        return self.inside if isinstance(self, Complement) else Complement(self)

    @property
    def is_empty(self) -> bool | None:
        return _is_empty(self)

    @property
    def pattern(self) -> str | None:
        """A pattern of exactly these strings, in the syntax of all engines. It has no
        look-around."""
        return _pattern(self)


@dataclass(frozen=True)
class Matching(Language):
    """The strings that a pattern of JSON Schema matches."""

    source: str

    @property
    def intersected(self) -> list[str] | None:
        """Patterns without look-around that together match exactly these strings."""
        if self.pattern is not None:
            return [self.pattern]
        try:
            part = _whole(self.source)
        except (Unsupported, RecursionError):
            return None
        parts = part.parts if isinstance(part, Both) else (part,)
        found = [Whole(each).pattern for each in parts]
        known = [each for each in found if each is not None]
        return known if len(known) == len(found) else None


@dataclass(frozen=True)
class Whole(Language):
    """The strings that a part of a pattern matches as a whole."""

    part: Part


@dataclass(frozen=True)
class Listed(Language):
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Long(Language):
    """The strings of some lengths."""

    least: int = 0
    most: int | None = None


@dataclass(frozen=True)
class Intersection(Language):
    parts: tuple[Language, ...]


@dataclass(frozen=True)
class Union(Language):
    parts: tuple[Language, ...]


@dataclass(frozen=True)
class Complement(Language):
    inside: Language


@lru_cache(maxsize=512)
def _is_empty(language: Language) -> bool | None:
    try:
        algebra, expression, _ = _expression(language)
        return automaton(algebra, expression).is_empty
    except (Unsupported, RecursionError):
        return None


@lru_cache(maxsize=512)
def _pattern(language: Language) -> str | None:
    try:
        return pattern_of(*_expression(language))
    except (Unsupported, RecursionError):
        return None


def _expression(language: Language) -> tuple[Algebra, Expression, list[Ranges]]:
    """The expression, and the sets that it divides characters into."""
    parts = partition(characters_of(language))
    algebra = Algebra(len(parts))
    return algebra, Builder(algebra, parts).language(language), parts


@lru_cache(maxsize=512)
def _whole(source: str) -> Part:
    """What matches the strings of a pattern as a whole. Raises Unsupported."""
    part = whole(parse(source))
    if any(isinstance(each, Repeated) and _is_large(each) for each in every_part(part)):
        raise Unsupported(f"it counts beyond {MAX_REPEATED:,}")
    return part


def _is_large(part: Repeated) -> bool:
    return max(part.least, part.most or 0) > MAX_REPEATED


def characters_of(language: Language) -> Iterator[Ranges]:
    """The sets of characters in the definition of a language."""
    match language:
        case Matching(source):
            yield from characters_of(Whole(_whole(source)))
        case Whole(whole_part):
            found = (each for each in every_part(whole_part) if isinstance(each, Characters))
            yield from (each.every for each in found)
        case Listed(texts):
            if any(0xD800 <= ord(each) <= 0xDFFF for text in texts for each in text):
                raise Unsupported("a lone surrogate")
            yield from {only(character) for text in texts for character in text}
        case Intersection(parts) | Union(parts):
            for part in parts:
                yield from characters_of(part)
        case Complement(inside):
            yield from characters_of(inside)
        case _:
            yield ANY


class Builder:
    """Makes the expressions of languages."""

    def __init__(self, algebra: Algebra, parts: list[Ranges]) -> None:
        self._algebra = algebra
        self._firsts = [ranges[0][0] for ranges in parts]

    def language(self, language: Language) -> Expression:
        algebra = self._algebra
        match language:
            case Matching(source):
                return self._part(_whole(source))
            case Whole(part):
                return self._part(part)
            case Listed(texts):
                return algebra.either([self._text(text) for text in texts])
            case Long(least, most):
                return algebra.repeated(algebra.any, least, most)
            case Intersection(parts):
                return algebra.both([self.language(part) for part in parts])
            case Union(parts):
                return algebra.either([self.language(part) for part in parts])
            case Complement(inside):
                return algebra.complement(self.language(inside))
        raise Unsupported("an unknown language")

    def _text(self, text: str) -> Expression:
        expression = self._algebra.empty
        for character in reversed(text):
            expression = self._algebra.sequence(self._some(only(character)), expression)
        return expression

    def _some(self, ranges: Ranges) -> Expression:
        characters = 0
        for at, first in enumerate(self._firsts):
            if any(low <= first <= high for low, high in ranges):
                characters |= 1 << at
        return self._algebra.some(characters)

    def _part(self, part: Part) -> Expression:
        """The strings that a part matches as a whole."""
        algebra = self._algebra
        match part:
            case Characters():
                return self._some(part.every)
            case Sequence(parts):
                expression = algebra.empty
                for each in reversed(parts):
                    expression = algebra.sequence(self._part(each), expression)
                return expression
            case Alternatives(options):
                return algebra.either([self._part(each) for each in options])
            case Repeated(inside, least, most):
                return algebra.repeated(self._part(inside), least, most)
            case Both(parts):
                return algebra.both([self._part(each) for each in parts])
            case Other(inside):
                return algebra.complement(self._part(inside))
        raise Unsupported("it has an anchor inside")


def texts(values: Iterable[str]) -> Language:
    return Listed(tuple(sorted(set(values))))
