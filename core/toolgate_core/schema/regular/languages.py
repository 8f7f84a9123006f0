"""Languages: the strings of patterns, lengths and lists, and combinations of these.

Questions about a language are answered by its automaton. The answer is None if that would be too
large, or if a pattern is not regular.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from .algebra import Algebra, Expression
from .automaton import Automaton, automaton
from .characters import ANY, Ranges, only, partition
from .lengths import lengths
from .syntax import (
    Alternatives,
    Anchor,
    Characters,
    LookAhead,
    Part,
    Repeated,
    Sequence,
    Unsupported,
    parse,
)
from .writing import pattern_of

MAX_LENGTH = 1_000
"""Maximum length of a pattern that is read, in characters."""


class Language:
    """A set of strings. Equal definitions are equal."""

    def __and__(self, other: Language) -> Language:
        return Intersection((self, other))

    def __or__(self, other: Language) -> Language:
        return Union((self, other))

    def __invert__(self) -> Language:
        return self.inside if isinstance(self, Complement) else Complement(self)

    @property
    def is_empty(self) -> bool | None:
        made = _automaton(self)
        return None if made is None else made[0].is_empty

    @property
    def pattern(self) -> str | None:
        """A pattern of exactly these strings, in the syntax of all engines. It has no
        look-around."""
        return _pattern(self)

    def contains(self, other: Language) -> bool | None:
        """Whether all strings of another language are in this one."""
        return (other & ~self).is_empty


@dataclass(frozen=True)
class Matching(Language):
    """The strings that a pattern of JSON Schema matches."""

    source: str

    @property
    def lengths(self) -> tuple[int, int | None]:
        """Bounds on the lengths of the strings; None: of no known length."""
        return _lengths(self.source)


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


EVERYTHING = Long()
NOTHING = Complement(EVERYTHING)


@lru_cache(maxsize=512)
def _automaton(language: Language) -> tuple[Automaton, tuple[Ranges, ...]] | None:
    """The automaton, and the sets that it divides characters into."""
    try:
        parts = partition(characters_of(language))
        algebra = Algebra(len(parts))
        expression = Builder(algebra, parts).language(language)
        return automaton(algebra, expression), tuple(parts)
    except (Unsupported, RecursionError):
        return None


@lru_cache(maxsize=512)
def _pattern(language: Language) -> str | None:
    made = _automaton(language)
    if made is None:
        return None
    try:
        return pattern_of(made[0], [*made[1]])
    except (Unsupported, RecursionError):
        return None


@lru_cache(maxsize=512)
def _parsed(source: str) -> Part:
    if len(source) > MAX_LENGTH:
        raise Unsupported(source)
    return parse(source)


@lru_cache(maxsize=4_096)
def _lengths(source: str) -> tuple[int, int | None]:
    try:
        return lengths(_parsed(source))
    except Unsupported:
        return 0, None


def characters_of(language: Language) -> Iterator[Ranges]:
    """The sets of characters in the definition of a language."""
    match language:
        case Matching(source):
            yield from _characters_in(_parsed(source))
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


def _characters_in(part: Part) -> Iterator[Ranges]:
    match part:
        case Characters(ranges):
            yield ranges
        case Sequence(parts) | Alternatives(parts):
            for each in parts:
                yield from _characters_in(each)
        case Repeated(inside, _, _) | LookAhead(inside, _):
            yield from _characters_in(inside)
        case Anchor():
            pass


class Builder:
    """Makes the expressions of languages."""

    def __init__(self, algebra: Algebra, parts: list[Ranges]) -> None:
        self._algebra = algebra
        self._firsts = [ranges[0][0] for ranges in parts]

    def language(self, language: Language) -> Expression:
        algebra = self._algebra
        match language:
            case Matching(source):
                return self._search(_parsed(source))
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

    def _search(self, part: Part) -> Expression:
        """The strings in which a pattern has a match anywhere."""
        algebra = self._algebra
        later = algebra.sequence(
            algebra.repeated(algebra.any, 1, None), self._rest((part,), at_start=False)
        )
        return algebra.either([self._rest((part,), at_start=True), later])

    def _rest(self, parts: tuple[Part, ...], *, at_start: bool) -> Expression:
        """The rests of a string that begin with a match of these parts."""
        algebra = self._algebra
        if not parts:
            return algebra.all
        part, following = parts[0], parts[1:]
        match part:
            case Anchor(end=False):
                return self._rest(following, at_start=True) if at_start else algebra.none
            case Anchor(end=True):
                return algebra.both([algebra.empty, self._rest(following, at_start=at_start)])
            case LookAhead(inside, negative):
                seen = self._rest((inside,), at_start=at_start)
                seen = algebra.complement(seen) if negative else seen
                return algebra.both([seen, self._rest(following, at_start=at_start)])
            case Sequence(inside) if _has_assertion(part):
                return self._rest((*inside, *following), at_start=at_start)
            case Alternatives(options) if _has_assertion(part):
                return algebra.either(
                    [self._rest((each, *following), at_start=at_start) for each in options]
                )
            case Repeated(inside, least, 1) if _has_assertion(part):
                once = self._rest((inside, *following), at_start=at_start)
                return (
                    once
                    if least
                    else algebra.either([once, self._rest(following, at_start=at_start)])
                )
        first = self._plain(part)
        if at_start and algebra.is_nullable(first) and any(map(_has_start, following)):
            raise Unsupported("an anchor after what may be empty")
        return algebra.sequence(first, self._rest(following, at_start=False))

    def _plain(self, part: Part) -> Expression:
        """The strings that a part without assertions matches."""
        algebra = self._algebra
        match part:
            case Characters(ranges):
                return self._some(ranges)
            case Sequence(parts):
                expression = algebra.empty
                for each in reversed(parts):
                    expression = algebra.sequence(self._plain(each), expression)
                return expression
            case Alternatives(options):
                return algebra.either([self._plain(each) for each in options])
            case Repeated(inside, least, most):
                return algebra.repeated(self._plain(inside), least, most)
        raise Unsupported("an assertion that is repeated")


def _has_assertion(part: Part) -> bool:
    match part:
        case Sequence(parts) | Alternatives(parts):
            return any(map(_has_assertion, parts))
        case Repeated(inside, _, _):
            return _has_assertion(inside)
    return isinstance(part, Anchor | LookAhead)


def _has_start(part: Part) -> bool:
    match part:
        case Sequence(parts) | Alternatives(parts):
            return any(map(_has_start, parts))
        case Repeated(inside, _, _) | LookAhead(inside, _):
            return _has_start(inside)
    return part == Anchor(end=False)


def texts(values: Iterable[str]) -> Language:
    return Listed(tuple(sorted(set(values))))
