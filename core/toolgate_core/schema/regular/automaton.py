"""Deterministic automata of expressions."""

from __future__ import annotations

from dataclasses import dataclass

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

    @property
    def is_empty(self) -> bool:
        return not self.ends


def automaton(algebra: Algebra, expression: Expression) -> Automaton:
    """The smallest automaton of an expression. Raises Unsupported if one has too many states."""
    places = {expression: 0}
    found = [expression]
    table: list[list[int]] = []
    for state in found:
        row = []
        for character in range(algebra.characters):
            following = algebra.derivative(state, character)
            if following not in places:
                if len(found) >= MAX_STATES:
                    raise Unsupported("too many states")
                places[following] = len(found)
                found.append(following)
            row.append(places[following])
        table.append(row)
    ends = [algebra.is_nullable(state) for state in found]
    blocks = _blocks(table, ends)
    return _reduced(table, ends, blocks)


def _blocks(table: list[list[int]], ends: list[bool]) -> list[int]:
    """For each state the number of its class of states with the same strings (Moore)."""
    blocks = [int(each) for each in ends]
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


def _reduced(table: list[list[int]], ends: list[bool], blocks: list[int]) -> Automaton:
    steps: dict[int, dict[int, int]] = {}
    for at, row in enumerate(table):
        if blocks[at] not in steps:
            made = steps[blocks[at]] = {}
            for character, to in enumerate(row):
                made[blocks[to]] = made.get(blocks[to], 0) | 1 << character
    alive = {blocks[at] for at, is_end in enumerate(ends) if is_end}
    accepting = set(alive)
    while more := {at for at, row in steps.items() if at not in alive and alive & row.keys()}:
        alive |= more
    order = [each for each in dict.fromkeys(blocks) if each in alive]
    numbers = {block: at for at, block in enumerate(order)}
    if blocks[0] not in alive:
        return Automaton(frozenset(), ({},))
    return Automaton(
        frozenset(numbers[each] for each in accepting),
        tuple({numbers[to]: c for to, c in steps[at].items() if to in alive} for at in order),
    )
