"""The parts of a pattern, its sets of characters, and the pattern as text, in the part of
JavaScript's syntax that all readers share.

Rust's regex and fancy-regex (jsonschema-rs, llguidance) and Python's `re` read these texts as
JavaScript does, with and without the flag `u`. Classes are ranges of characters and escapes of
single ones: sorted ranges of code points, without surrogates.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import jsonschema_rs

Ranges = tuple[tuple[int, int], ...]
"""Disjoint ranges, both ends included, that do not touch each other."""

_LAST = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)


def ranges_of(parts: Iterable[tuple[int, int]]) -> Ranges:
    ranges: list[tuple[int, int]] = []
    for low, high in sorted(_without_surrogates(parts)):
        if ranges and low <= ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], high))
        else:
            ranges.append((low, high))
    return tuple(ranges)


def _without_surrogates(parts: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    first, last = _SURROGATES
    for low, high in parts:
        for start, end in ((low, min(high, first - 1)), (max(low, last + 1), high)):
            if start <= end:
                yield start, end


def other_than(ranges: Ranges) -> Ranges:
    """Return all other characters."""
    others, start = [], 0
    for low, high in ranges:
        others.append((start, low - 1))
        start = high + 1
    others.append((start, _LAST))
    return ranges_of((low, high) for low, high in others if low <= high)


def union(*sets: Ranges) -> Ranges:
    return ranges_of(each for ranges in sets for each in ranges)


def has(ranges: Ranges, code: int) -> bool:
    return any(low <= code <= high for low, high in ranges)


def is_single(ranges: Ranges) -> bool:
    return len(ranges) == 1 and ranges[0][0] == ranges[0][1]


ANY = other_than(())
DIGIT = ranges_of([(0x30, 0x39)])
WORD = ranges_of([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
SPACE = ranges_of(
    [
        *((0x9, 0xD), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A)),
        *((0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)),
        (0xFEFF, 0xFEFF),
    ]
)
LINE_END = ranges_of([(0xA, 0xA), (0xD, 0xD), (0x2028, 0x2029)])
"""ECMA-262 §12.3. `.` matches all other characters."""


def written(ranges: Ranges) -> str:
    """Return a character or a class of a pattern."""
    if ranges in ((), ANY):
        return r"[\s\S]" if ranges else r"[^\s\S]"
    if is_single(ranges):
        return escaped(chr(ranges[0][0]))
    inside = inside_class(ranges)
    outside = "^" + inside_class(other_than(ranges))
    return f"[{min(inside, outside, key=len)}]"


def inside_class(ranges: Ranges) -> str:
    """Return what stands between the brackets of a class."""
    return "".join(
        escaped(chr(low)) if low == high else f"{escaped(chr(low))}-{escaped(chr(high))}"
        for low, high in ranges
    )


def escaped(character: str) -> str:
    plain = character.isalnum() or ord(character) > 0x9F
    return character if plain else rf"\x{ord(character):02x}"


@lru_cache(maxsize=1_024)
def is_known(name: str) -> bool:
    """Whether there is such a property, written as `p{L}` or `P{L}`."""
    try:
        jsonschema_rs.validator_for({"pattern": rf"\{name}"})
    except (ValueError, jsonschema_rs.ValidationError):
        return False
    return True


# --- regard to case ---

_BLOCKS = (
    *((0x0, 0x2FFF), (0xA640, 0xABFF), (0xFB00, 0xFB1F), (0xFF00, 0xFF5F), (0x10400, 0x105FF)),
    *((0x10C80, 0x10D9F), (0x118A0, 0x118DF), (0x16E40, 0x16EFF), (0x1E900, 0x1E943)),
)
"""No other characters have a case."""


def letters_in(ranges: Ranges, *, unicode: bool) -> int:
    """Return the number of characters of which there are variants."""
    codes, _ = _folding(unicode)
    return sum(bisect_right(codes, high) - bisect_left(codes, low) for low, high in ranges)


def folded(ranges: Ranges, *, unicode: bool) -> Ranges:
    """Return the characters that match one of these without regard to case. `unicode`: with the
    flag `u`, that is by Unicode's simple case folding, otherwise by capital letters."""
    codes, others = _folding(unicode)
    more = [
        (other, other)
        for low, high in ranges
        for at in range(bisect_left(codes, low), bisect_right(codes, high))
        for other in others[at]
    ]
    return ranges_of([*ranges, *more])


@lru_cache(maxsize=2)
def _folding(unicode: bool) -> tuple[list[int], list[list[int]]]:
    """Return the characters that match others, in order, and for each of them all that match it."""
    groups: dict[str, list[int]] = defaultdict(list)
    for low, high in _BLOCKS:
        for code in range(low, high + 1):
            character = chr(code)
            groups[_simple(character) if unicode else _capital(character)].append(code)
    others = {code: group for group in groups.values() if len(group) > 1 for code in group}
    codes = sorted(others)
    return codes, [others[code] for code in codes]


def _simple(character: str) -> str:
    for other in (character.casefold(), character.lower()):
        if len(other) == 1:
            return other
    return character


def _capital(character: str) -> str:
    capital = character.upper()
    is_foreign = not character.isascii() and capital.isascii()
    return character if len(capital) != 1 or is_foreign else capital


class Unsupported(Exception):
    """A pattern that is not regular, not valid, or too large."""


@dataclass(frozen=True)
class Characters:
    """One character of a class."""

    ranges: Ranges
    properties: frozenset[str] = frozenset()
    """Unicode's properties in the class, such as `p{L}`, or `P{L}` for its complement."""
    excluded: bool = False
    """Whether all other characters are meant. Only with properties: `ranges` have no need of it."""


@dataclass(frozen=True)
class Sequence:
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Alternatives:
    options: tuple[Part, ...]


@dataclass(frozen=True)
class Repetition:
    part: Part
    least: int
    most: int | None
    lazy: bool = False
    """It matters to back-references only."""


@dataclass(frozen=True)
class Anchor:
    end: bool
    """`$`, not `^`."""


@dataclass(frozen=True)
class Boundary:
    """The place between a character of a word and another one."""

    negative: bool


@dataclass(frozen=True)
class Look:
    """A look-ahead, or a look-behind."""

    part: Part
    negative: bool
    behind: bool = False


@dataclass(frozen=True)
class Group:
    """A capturing group. Patterns without back-references have none."""

    part: Part


@dataclass(frozen=True)
class BackReference:
    number: int


Part = (
    Characters
    | Sequence
    | Alternatives
    | Repetition
    | Anchor
    | Boundary
    | Look
    | Group
    | BackReference
)
ANYTHING = Repetition(Characters(ANY), 0, None)
NOTHING = Characters(())
EMPTY = Sequence(())


def inside(part: Part) -> tuple[Part, ...]:
    """Return the parts directly inside a part."""
    match part:
        case Sequence(parts) | Alternatives(parts):
            return parts
        case Repetition(one) | Look(one) | Group(one):
            return (one,)
    return ()


def with_inside(part: Part, changed: Callable[[Part], Part]) -> Part:
    """Return a part with each part directly inside it changed."""
    match part:
        case Sequence(parts):
            return Sequence(tuple(map(changed, parts)))
        case Alternatives(options):
            return Alternatives(tuple(map(changed, options)))
        case Repetition(one) | Look(one) | Group(one):
            return replace(part, part=changed(one))
    return part


def every_part(part: Part) -> Iterator[Part]:
    yield part
    for inner in inside(part):
        yield from every_part(inner)


def is_always_empty(part: Part) -> bool:
    """Return whether a part matches the empty text only."""
    if isinstance(part, Look):
        return True
    if isinstance(part, Characters | BackReference):
        return False
    return all(map(is_always_empty, inside(part)))


_SEQUENCE, _ATOM = 1, 2


def text_of(part: Part, around: int = 0) -> str:
    """Return a pattern. `around`: 1 in a sequence, 2 before a quantifier. Raise Unsupported."""
    match part:
        case Characters():
            return _characters(part)
        case Sequence(parts):
            text = "".join(text_of(each, _SEQUENCE) for each in parts)
            return f"(?:{text})" if around == _ATOM else text
        case Alternatives(options):
            text = "|".join(map(text_of, options))
            return f"(?:{text})" if around else text
        case Repetition(one, least, most, lazy):
            text = f"{text_of(one, _ATOM)}{_quantifier(least, most)}{'?' if lazy else ''}"
            return f"(?:{text})" if around == _ATOM else text
        case Anchor(end):
            return "$" if end else "^"
        case Look(one, negative, behind):
            return f"(?{'<' if behind else ''}{'!' if negative else '='}{text_of(one)})"
        case Boundary(negative):
            return text_of(_boundary(negative), around)
        case Group(one):
            return f"({text_of(one)})"
        case BackReference(number):
            return rf"(?:\{number})"
    raise Unsupported("it has no text")


def _characters(part: Characters) -> str:
    if not part.properties:
        return written(part.ranges)
    properties = "".join(rf"\{each}" for each in sorted(part.properties))
    if not part.ranges and not part.excluded and len(part.properties) == 1:
        return properties
    return f"[{'^' if part.excluded else ''}{inside_class(part.ranges)}{properties}]"


def _quantifier(least: int, most: int | None) -> str:
    usual = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((least, most))
    if usual is not None:
        return usual
    return f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"


def _boundary(negative: bool) -> Part:
    r"""`\b` or `\B` by look-around, because they have Unicode's words in Rust."""
    word = Characters(WORD)
    return Alternatives(
        (
            Sequence((Look(word, False, behind=True), Look(word, not negative))),
            Sequence((Look(word, True, behind=True), Look(word, negative))),
        )
    )
