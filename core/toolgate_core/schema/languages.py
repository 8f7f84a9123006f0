"""Regular languages, state by state, as far as texts reach their states.

A state is the pattern of what may follow (a derivative: Brzozowski, Journal of the ACM, 1964). Two
texts with the same state can go on in the same ways.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from .patterns import either, matches, may_be_empty, options_of, sequence
from .regular.parts import (
    ANYTHING,
    EMPTY,
    NOTHING,
    Alternatives,
    Characters,
    Part,
    Repeated,
    Sequence,
    Unsupported,
    every_part,
    has,
    text_of,
)

MAX_STATES = 2_000
MAX_PARTS = 500
"""Maximum number of parts of a state."""
MAX_STEPS = 50_000
"""Maximum number of steps that are kept."""
BEGIN = 0


class Language:
    """Its states are numbered. Not thread-safe."""

    def __init__(self, pattern: Part) -> None:
        """`pattern` matches whole texts, without assertions (`patterns.whole`)."""
        self._states = [pattern]
        self._numbers = {pattern: BEGIN}
        self._steps: dict[tuple[int, str], int] = {}

    def after(self, state: int, character: str) -> int:
        """Return the state after one more character. Raise Unsupported if there are too many."""
        step = (state, character)
        found = self._steps.get(step)
        if found is None:
            found = self._number(derivative(self._states[state], character))
            if len(self._steps) >= MAX_STEPS:
                self._steps.clear()
            self._steps[step] = found
        return found

    def _number(self, state: Part) -> int:
        found = self._numbers.get(state)
        if found is None:
            if len(self._states) >= MAX_STATES or sum(1 for _ in every_part(state)) > MAX_PARTS:
                raise Unsupported("it has too many states")
            found = self._numbers[state] = len(self._states)
            self._states.append(state)
        return found

    def is_dead(self, state: int) -> bool:
        """Return whether no text can follow."""
        return self._states[state] == NOTHING

    def is_free(self, state: int) -> bool:
        """Return whether any text can follow."""
        return self._states[state] == ANYTHING

    def is_whole(self, state: int) -> bool:
        """Return whether the text may end."""
        return may_be_empty(self._states[state])


def derivative(part: Part, character: str) -> Part:
    """Return what may follow `character` in a pattern. Raise Unsupported."""
    match part:
        case Characters():
            return EMPTY if _is_in(part, character) else NOTHING
        case Sequence(()):
            return NOTHING
        case Sequence((first, *others)):
            rest = others[0] if len(others) == 1 else Sequence(tuple(others))
            inside = sequence(derivative(first, character), rest)
            return _either(inside, derivative(rest, character)) if may_be_empty(first) else inside
        case Alternatives(options):
            return _either(*(derivative(each, character) for each in options))
        case Repeated(one, least, most):
            if most == 0:
                return NOTHING
            left = None if most is None else most - 1
            more = replace(part, least=max(0, least - 1), most=left, lazy=False)
            return sequence(derivative(one, character), EMPTY if left == 0 else more)
    raise Unsupported("it has a back-reference or look-around")


def _either(*ways: Part) -> Part:
    return either([option for way in ways for option in options_of(way)])


@lru_cache(maxsize=16_384)
def _is_in(part: Characters, character: str) -> bool:
    if part.properties:
        return matches(f"^{text_of(part)}$", character)
    return has(part.ranges, ord(character))
