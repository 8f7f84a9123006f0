"""The parts of a pattern."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .characters import ANY, Ranges


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
