"""The pattern of an expression: the states of its automaton are taken out one by one, and their
ways become parts of the pattern."""

from __future__ import annotations

from .algebra import Algebra, Automaton, Expression, automaton
from .characters import Ranges, ranges_of, written
from .rests import Rests
from .syntax import Unsupported
from .text import quantifier

MAX_STATES = 200
MAX_PATTERN = 8_000
"""Maximum length of a pattern, in characters."""


def pattern_of(algebra: Algebra, expression: Expression, parts: list[Ranges]) -> str:
    """A pattern of the whole string. `parts`: the sets that all characters are divided into. Raises
    Unsupported if it would be too long."""
    found = automaton(algebra, expression, Rests(algebra).of)
    if found.is_empty:
        return r"^[^\s\S]$"
    writer = _Writer(algebra, parts)
    text = writer.text(_expression(writer, found), 1)
    return f"^{text}$"


def _expression(writer: _Writer, automaton: Automaton) -> Expression:
    if len(automaton.steps) > MAX_STATES:
        raise Unsupported("too many states")
    algebra = writer.algebra
    start, end = -1, -2
    ways: dict[int, dict[int, Expression]] = {start: {0: algebra.empty}, end: {}}
    for at, row in enumerate(automaton.steps):
        ways[at] = {to: algebra.some(characters) for to, characters in row.items()}
        if at in automaton.ends:
            ways[at][end] = algebra.empty
        if at in automaton.rests:
            ways[at][end] = automaton.rests[at]
    into: dict[int, set[int]] = {at: set() for at in ways}
    for at, row in ways.items():
        for to in row:
            into[to].add(at)
    while inner := [at for at in ways if at >= 0]:
        at = min(inner, key=lambda each: (_cost(writer, ways, into, each), each))
        row = ways.pop(at)
        loop = algebra.repeated(row.pop(at, algebra.none), 0, None)
        for to in row:
            into[to].discard(at)
        for each in into.pop(at) - {at}:
            before = algebra.sequence(ways[each].pop(at), loop)
            for to, after in row.items():
                way = algebra.sequence(before, after)
                ways[each][to] = writer.either([ways[each].get(to, algebra.none), way])
                into[to].add(each)
                if writer.length(ways[each][to]) > MAX_PATTERN:
                    raise Unsupported("the pattern is too long")
    return ways[start].get(end, algebra.none)


def _cost(
    writer: _Writer, ways: dict[int, dict[int, Expression]], into: dict[int, set[int]], at: int
) -> int:
    """About how much longer the ways between other states get without this one."""
    before = [writer.length(ways[each][at]) for each in into[at] if each != at]
    after = [writer.length(way) for to, way in ways[at].items() if to != at]
    loop = writer.length(ways[at][at]) if at in ways[at] else 0
    return sum(before) * len(after) + (sum(after) + loop * len(after)) * len(before)


class _Writer:
    def __init__(self, algebra: Algebra, parts: list[Ranges]) -> None:
        self.algebra = algebra
        self._parts = parts
        self._lengths: dict[Expression, int] = {}

    def length(self, expression: Expression) -> int:
        """About the length of its text."""
        if expression not in self._lengths:
            self._lengths[expression] = self._length(expression)
        return self._lengths[expression]

    def _length(self, expression: Expression) -> int:
        match self.algebra.form(expression):
            case ("some", int(some)):
                return len(self._characters(some))
            case ("repeated", int(part), *_):
                return self.length(part) + 5
            case ("sequence" | "either", *parts):
                return sum(self.length(each) + 2 for each in parts if isinstance(each, int))
        return 0

    def _characters(self, some: int) -> str:
        inside = [r for at, ranges in enumerate(self._parts) if some >> at & 1 for r in ranges]
        return written(ranges_of(inside))

    def either(self, options: list[Expression]) -> Expression:
        """The options with what several of them begin or end with written once. Engines give up
        intersections of long patterns."""
        pending, found = [*self._options(self.algebra.either(options))], list[Expression]()
        while pending:
            one = pending.pop()
            for other in found:
                both = self._factored(one, other)
                if both is not None:
                    found.remove(other)
                    pending.append(both)
                    break
            else:
                found.append(one)
        return self.algebra.either(found)

    def _options(self, expression: Expression) -> list[Expression]:
        match self.algebra.form(expression):
            case ("either", *options):
                return [each for each in options if isinstance(each, int)]
        return [expression]

    def _factored(self, one: Expression, other: Expression) -> Expression | None:
        """Either of two as one sequence; None if they have nothing in common."""
        first, second = self._factors(one), self._factors(other)
        for empty, some in ((first, second), (second, first)):
            if not empty and len(some) == 2:  # nothing, or something once and more
                for part, more in (some, some[::-1]):
                    if more == self.algebra.repeated(part, 0, None):
                        return more
        count = min(len(first), len(second))
        for at in range(count):
            if first[len(first) - 1 - at] != second[len(second) - 1 - at]:
                count = at
                break
        if count:
            heads = [self._joined(each[: len(each) - count]) for each in (first, second)]
            return self._joined([self.either(heads), *first[len(first) - count :]])
        if first[:1] and first[:1] == second[:1]:
            tails = [self._joined(each[1:]) for each in (first, second)]
            return self.algebra.sequence(first[0], self.either(tails))
        return None

    def _factors(self, expression: Expression) -> list[Expression]:
        if expression == self.algebra.empty:
            return []
        match self.algebra.form(expression):
            case ("sequence", int(first), int(rest)):
                return [first, *self._factors(rest)]
        return [expression]

    def _joined(self, factors: list[Expression]) -> Expression:
        joined = self.algebra.empty
        for each in reversed(factors):
            joined = self.algebra.sequence(each, joined)
        return joined

    def text(self, expression: Expression, around: int) -> str:
        """`around`: 0 in an alternative, 1 in a sequence, 2 before a quantifier."""
        match self.algebra.form(expression):
            case ("some", int(some)):
                return self._characters(some)
            case ("repeated", int(part), int(least), most):
                counts = quantifier(least, most if isinstance(most, int) else None)
                text = f"{self.text(part, 2)}{counts}"
                return f"(?:{text})" if around == 2 else text
            case ("sequence", int(first), int(rest)):
                text = self.text(first, 1) + self.text(rest, 1)
                return f"(?:{text})" if around == 2 else text
            case ("either", *options):
                return self._either([each for each in options if isinstance(each, int)])
        return ""

    def _either(self, options: list[Expression]) -> str:
        optional = self.algebra.empty in options
        left = [each for each in options if each != self.algebra.empty]
        if optional and len(left) == 1:
            return f"(?:{self.text(left[0], 2)}?)"
        text = f"(?:{'|'.join(self.text(each, 0) for each in left)})"
        return f"(?:{text}?)" if optional else text
