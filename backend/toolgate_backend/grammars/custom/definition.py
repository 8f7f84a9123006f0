"""A grammar of a custom tool, after its definition was read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Text:
    """A string or a regular expression, which llguidance reads."""

    regex: str = ""
    """As it is written; empty for a string."""


@dataclass(frozen=True)
class Name:
    """A rule or a terminal."""

    name: str


@dataclass(frozen=True)
class Sequence:
    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Choice:
    options: tuple[Expression, ...]


@dataclass(frozen=True)
class Repeat:
    part: Expression
    least: int
    """Least number of times. The most does not matter here."""


Expression = Text | Name | Sequence | Choice | Repeat
Definition = dict[str, Expression]
"""Rules and terminals by name."""
