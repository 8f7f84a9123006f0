"""The parts of a pattern, and the pattern as text, in the part of JavaScript's syntax that all
readers share.

Rust's regex and fancy-regex (jsonschema-rs, llguidance) and Python's `re` read these texts as
JavaScript does, with and without the flag `u`. Classes are ranges of characters and escapes of
single ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .characters import ANY, WORD, Ranges, inside_class, written


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
class Repeated:
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
    | Repeated
    | Anchor
    | Boundary
    | Look
    | Group
    | BackReference
)
ANYTHING = Repeated(Characters(ANY), 0, None)
NOTHING = Characters(())
EMPTY = Sequence(())


def inside(part: Part) -> tuple[Part, ...]:
    """The parts directly inside a part."""
    match part:
        case Sequence(parts) | Alternatives(parts):
            return parts
        case Repeated(one) | Look(one) | Group(one):
            return (one,)
    return ()


def every_part(part: Part) -> Iterator[Part]:
    yield part
    for each in inside(part):
        yield from every_part(each)


def is_always_empty(part: Part) -> bool:
    """Whether a part matches the empty text only."""
    if isinstance(part, Look):
        return True
    if isinstance(part, Characters | BackReference):
        return False
    return all(map(is_always_empty, inside(part)))


_SEQUENCE, _ATOM = 1, 2


def text_of(part: Part, around: int = 0) -> str:
    """A pattern. `around`: 1 in a sequence, 2 before a quantifier. Raises Unsupported."""
    match part:
        case Characters():
            return _characters(part)
        case Sequence(parts):
            text = "".join(text_of(each, _SEQUENCE) for each in parts)
            return f"(?:{text})" if around == _ATOM else text
        case Alternatives(options):
            text = "|".join(map(text_of, options))
            return f"(?:{text})" if around else text
        case Repeated(one, least, most, lazy):
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
