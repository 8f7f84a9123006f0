"""Regular expressions with intersection and complement, and their derivatives (Brzozowski).

An expression is a number: equal expressions have the same one. Characters are numbers too, those of
the sets that all characters are divided into, and a set of those is an integer's bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .syntax import Unsupported

MAX_EXPRESSIONS = 20_000

Expression = int
_Form = tuple[object, ...]


class Algebra:
    def __init__(self, characters: int) -> None:
        """`characters`: how many there are."""
        self._forms: list[_Form] = []
        self._numbers: dict[_Form, Expression] = {}
        self._nullable: list[bool] = []
        self._derived: dict[tuple[Expression, int], Expression] = {}
        self.characters = characters
        self._every = (1 << characters) - 1
        self.none = self._add(("some", 0), False)
        self.empty = self._add(("empty",), True)
        self.any = self._add(("some", self._every), False)
        self.all = self._add(("repeated", self.any, 0, None), True)

    def _add(self, form: _Form, nullable: bool) -> Expression:
        if form not in self._numbers:
            if len(self._forms) >= MAX_EXPRESSIONS:
                raise Unsupported("too many expressions")
            self._numbers[form] = len(self._forms)
            self._forms.append(form)
            self._nullable.append(nullable)
        return self._numbers[form]

    def form(self, expression: Expression) -> _Form:
        return self._forms[expression]

    def is_nullable(self, expression: Expression) -> bool:
        """Whether it matches the empty string."""
        return self._nullable[expression]

    def some(self, characters: int) -> Expression:
        return self._add(("some", characters), False)

    def sequence(self, first: Expression, rest: Expression) -> Expression:
        if self.none in (first, rest):
            return self.none
        if first == self.empty:
            return rest
        if rest == self.empty:
            return first
        match self._forms[first]:
            case ("sequence", int(one), int(other)):
                return self.sequence(one, self.sequence(other, rest))
            case ("repeated", one, 0, None) if first == self.all and rest == self.all:
                return self.all
        nullable = self._nullable[first] and self._nullable[rest]
        return self._add(("sequence", first, rest), nullable)

    def either(self, options: list[Expression]) -> Expression:
        parts, characters = self._flat("either", options, self.none)
        union = 0
        for each in characters:
            union |= each
        if union:
            parts.add(self.some(union))
        if self.all in parts:
            return self.all
        if len(parts) <= 1:
            return next(iter(parts), self.none)
        nullable = any(self._nullable[each] for each in parts)
        return self._add(("either", *sorted(parts)), nullable)

    def both(self, options: list[Expression]) -> Expression:
        parts, characters = self._flat("both", options, self.all)
        common = self._every
        for each in characters:
            common &= each
        if characters:
            parts.add(self.some(common))
        if self.none in parts or any(self.complement(each) in parts for each in [*parts]):
            return self.none
        if len(parts) <= 1:
            return next(iter(parts), self.all)
        nullable = all(self._nullable[each] for each in parts)
        return self._add(("both", *sorted(parts)), nullable)

    def _flat(
        self, kind: str, options: list[Expression], neutral: Expression
    ) -> tuple[set[Expression], list[int]]:
        """The parts of an expression of this kind, and its sets of characters."""
        parts: set[Expression] = set()
        characters: list[int] = []
        pending = [*options]
        while pending:
            each = pending.pop()
            match self._forms[each]:
                case (name, *inside) if name == kind:
                    pending += [part for part in inside if isinstance(part, int)]
                case ("some", int(some)):
                    characters.append(some)
                case _:
                    if each != neutral:
                        parts.add(each)
        return parts, characters

    def complement(self, expression: Expression) -> Expression:
        match self._forms[expression]:
            case ("complement", int(inside)):
                return inside
        if expression in (self.none, self.all):
            return self.all if expression == self.none else self.none
        return self._add(("complement", expression), not self._nullable[expression])

    def repeated(self, part: Expression, least: int, most: int | None) -> Expression:
        if most == 0 or part in (self.empty, self.none):
            return self.none if part == self.none and least else self.empty
        if self._nullable[part]:
            least = 0
        if (least, most) == (1, 1):
            return part
        match self._forms[part]:
            case ("repeated", _, 0, None):
                return part
        return self._add(("repeated", part, least, most), least == 0)

    def derivative(self, expression: Expression, character: int) -> Expression:
        """What follows this character in the strings of an expression."""
        key = (expression, character)
        if key not in self._derived:
            self._derived[key] = self._derive(expression, character)
        return self._derived[key]

    def _derive(self, expression: Expression, character: int) -> Expression:
        match self._forms[expression]:
            case ("some", int(some)):
                return self.empty if some >> character & 1 else self.none
            case ("sequence", int(first), int(rest)):
                after = self.sequence(self.derivative(first, character), rest)
                if not self._nullable[first]:
                    return after
                return self.either([after, self.derivative(rest, character)])
            case ("complement", int(inside)):
                return self.complement(self.derivative(inside, character))
            case ("repeated", int(part), int(least), most):
                left = most - 1 if isinstance(most, int) else None
                rest = self.repeated(part, max(0, least - 1), left)
                return self.sequence(self.derivative(part, character), rest)
            case ("either" | "both" as kind, *parts):
                derived = [self.derivative(each, character) for each in parts]  # type: ignore[arg-type]
                return self.either(derived) if kind == "either" else self.both(derived)
        return self.none


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
