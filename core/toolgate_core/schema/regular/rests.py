"""Expressions without intersection and complement, which patterns can state as they are."""

from __future__ import annotations

from .algebra import Algebra, Expression

MAX_STEPS = 4_000
"""Maximum number of states that are looked at. Without an answer, a rest is written by its states,
which is longer."""


class Rests:
    """What can follow in strings of an expression. A look-ahead often asserts nothing any more
    about a rest, which then is the pattern's own."""

    def __init__(self, algebra: Algebra) -> None:
        self._algebra = algebra
        self._plain: dict[Expression, bool] = {}
        self._empty: dict[Expression, bool] = {}
        self._steps = 0

    def of(self, expression: Expression) -> Expression | None:
        """The same strings without intersection and complement; None if none is known."""
        if self.is_plain(expression):
            return expression
        match self._algebra.form(expression):
            case ("both", *inside):
                parts = [each for each in inside if isinstance(each, int)]
                for one in parts:
                    others = [other for other in parts if other != one]
                    if self.is_plain(one) and all(self._is_inside(one, each) for each in others):
                        return one
        return None

    def is_plain(self, expression: Expression) -> bool:
        if expression not in self._plain:
            match self._algebra.form(expression):
                case ("both" | "complement", *_):
                    found = False
                case ("sequence" | "either", *parts):
                    found = all(self.is_plain(each) for each in parts if isinstance(each, int))
                case ("repeated", int(part), *_):
                    found = self.is_plain(part)
                case _:
                    found = True
            self._plain[expression] = found
        return self._plain[expression]

    def _is_inside(self, one: Expression, other: Expression) -> bool:
        """Whether certainly all strings of one expression are in the other."""
        return self._is_empty(self._algebra.both([one, self._algebra.complement(other)]))

    def _is_empty(self, expression: Expression) -> bool:
        pending, seen = [expression], {expression}
        for each in pending:
            self._steps += 1
            known = self._empty.get(each)
            if known is False or self._steps > MAX_STEPS or self._algebra.is_nullable(each):
                self._empty[expression] = False
                return False
            if known:
                continue
            for character in range(self._algebra.characters):
                following = self._algebra.derivative(each, character)
                if following not in seen:
                    seen.add(following)
                    pending.append(following)
        self._empty |= dict.fromkeys(seen, True)
        return True
