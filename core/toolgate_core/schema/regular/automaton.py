"""Deterministic automata of expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .algebra import Algebra, Expression
from .syntax import Unsupported

MAX_STATES = 400


@dataclass(frozen=True)
class Automaton:
    """States are numbers, and the first one is 0. States from which no string ends are left out."""

    ends: frozenset[int]
    """The states in which a string may end."""
    steps: tuple[dict[int, int], ...]
    """For each state: the next states, each with the set of characters that lead there."""
    rests: dict[int, Expression] = field(default_factory=dict)
    """By state: all that may follow there. Such a state has no steps and is no end."""

    @property
    def is_empty(self) -> bool:
        return not self.ends and not self.rests


def automaton(
    algebra: Algebra,
    expression: Expression,
    rest_of: Callable[[Expression], Expression | None] = lambda _: None,
) -> Automaton:
    """The smallest automaton of an expression. `rest_of` gives an expression instead of the states
    that follow. Raises Unsupported if there are too many states."""
    places = {expression: 0}
    found = [expression]
    table: list[list[int]] = []
    rests: dict[int, Expression] = {}
    for at, state in enumerate(found):
        row: list[int] = []
        rest = rest_of(state) if state != algebra.none else None
        if rest is not None:
            rests[at] = rest
            table.append(row)
            continue
        for character in range(algebra.characters):
            following = algebra.derivative(state, character)
            if following not in places:
                if len(found) >= MAX_STATES:
                    raise Unsupported("too many states")
                places[following] = len(found)
                found.append(following)
            row.append(places[following])
        table.append(row)
    ends = [algebra.is_nullable(state) and at not in rests for at, state in enumerate(found)]
    kinds = [2 + rests[at] if at in rests else int(end) for at, end in enumerate(ends)]
    return _reduced(table, ends, rests, _blocks(table, kinds))


def _blocks(table: list[list[int]], kinds: list[int]) -> list[int]:
    """For each state the number of its class of states with the same strings (Moore). States of
    different kinds have different strings."""
    blocks = kinds
    count = len(set(blocks))
    while True:
        numbers: dict[tuple[int, ...], int] = {}
        refined = [
            numbers.setdefault((blocks[at], *(blocks[to] for to in row)), len(numbers))
            for at, row in enumerate(table)
        ]
        if len(numbers) == count:
            return refined
        blocks, count = refined, len(numbers)


def _reduced(
    table: list[list[int]], ends: list[bool], rests: dict[int, Expression], blocks: list[int]
) -> Automaton:
    steps: dict[int, dict[int, int]] = {}
    for at, row in enumerate(table):
        if blocks[at] not in steps:
            made = steps[blocks[at]] = {}
            for character, to in enumerate(row):
                made[blocks[to]] = made.get(blocks[to], 0) | 1 << character
    accepting = {blocks[at] for at, is_end in enumerate(ends) if is_end}
    followed = {blocks[at]: rest for at, rest in rests.items()}
    alive = accepting | followed.keys()
    while more := {at for at, row in steps.items() if at not in alive and alive & row.keys()}:
        alive |= more
    order = [each for each in dict.fromkeys(blocks) if each in alive]
    numbers = {block: at for at, block in enumerate(order)}
    if blocks[0] not in alive:
        return Automaton(frozenset(), ({},))
    return Automaton(
        frozenset(numbers[each] for each in accepting),
        tuple({numbers[to]: c for to, c in steps[at].items() if to in alive} for at in order),
        {numbers[each]: rest for each, rest in followed.items()},
    )
