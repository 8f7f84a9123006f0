"""What single keywords of a schema say about types, numbers and strings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ...regular import syntax
from ...regular.characters import is_single
from ...regular.languages import Matching
from ...regular.reading import parse

TYPES = frozenset({"array", "boolean", "null", "number", "object", "string"})
"""The types of JSON. Integers are numbers here."""


def types_of(node: dict[str, Any]) -> frozenset[str]:
    """The types that `type` allows."""
    given = node.get("type")
    if given is None:
        return TYPES
    names = [given] if isinstance(given, str) else given
    return frozenset("number" if name == "integer" else name for name in names)


@dataclass(frozen=True)
class Bounds:
    """The numbers between two others."""

    low: float
    high: float
    low_open: bool
    high_open: bool
    whole: bool

    @property
    def empty(self) -> bool:
        """Whether there is no such number."""
        if self.low > self.high or (self.low == self.high and (self.low_open or self.high_open)):
            return True
        return self.whole and self._without_multiple(Fraction(1))

    def without_multiple_of(self, factor: Fraction) -> bool:
        """Whether no such number is a multiple."""
        # The whole multiples of p/q, in lowest terms, are those of p.
        return self._without_multiple(Fraction(factor.numerator) if self.whole else factor)

    def _without_multiple(self, factor: Fraction) -> bool:
        if math.inf in (abs(self.low), abs(self.high)):
            return False
        low, high = exact(self.low) / factor, exact(self.high) / factor
        first, last = math.ceil(low), math.floor(high)
        first += self.low_open and first == low
        last -= self.high_open and last == high
        return first > last


def bounds(nodes: Sequence[dict[str, Any]]) -> Bounds:
    """The numbers that all these nodes allow."""
    low, high = (-math.inf, False), (math.inf, False)
    for node in nodes:
        for keyword, is_open in (("minimum", False), ("exclusiveMinimum", True)):
            if keyword in node:
                low = max(low, (node[keyword], is_open))
        for keyword, is_open in (("maximum", False), ("exclusiveMaximum", True)):
            if keyword in node:
                high = min(high, (node[keyword], is_open), key=lambda each: (each[0], not each[1]))
    return Bounds(low[0], high[0], low[1], high[1], any(map(_whole, nodes)))


def exact(number: float) -> Fraction:
    """The number as it is written in decimal."""
    return Fraction(number) if isinstance(number, int) else Fraction(str(number))


def _whole(node: dict[str, Any]) -> bool:
    """Whether all numbers that `type` allows are integers."""
    given = node.get("type")
    names = [given] if isinstance(given, str) else given or ["number"]
    return "integer" in names and "number" not in names


def prefix_of(pattern: str) -> str | None:
    """The text with which all strings of a pattern begin; None if none is known."""
    try:
        part = parse(pattern)
    except syntax.Unsupported:
        return None
    match part:
        case syntax.Sequence((syntax.Anchor(end=False), *inside)):
            found = ""
            for each in inside:
                if not isinstance(each, syntax.Characters) or not is_single(each.ranges):
                    break
                found += chr(each.ranges[0][0])
            return found or None
    return None


def counts_of(nodes: Sequence[dict[str, Any]], of: str) -> tuple[int, int | None]:
    """The least and the largest number of items, members or characters. `of`: the end of the
    keywords."""
    least = max((node.get(f"min{of}", 0) for node in nodes), default=0)
    most = [node[f"max{of}"] for node in nodes if f"max{of}" in node]
    return int(least), min(most, default=None)


def no_multiple(nodes: Sequence[dict[str, Any]]) -> bool:
    """Whether there is no multiple that a `multipleOf` asks for: bounds are closer than two of
    them, or a `not` excludes all."""
    factors = [factor for node in nodes if (factor := _factor(node))]
    if not factors:
        return False
    between = bounds(nodes)
    if any(between.without_multiple_of(factor) for factor in factors):
        return True
    for node in nodes:
        negated = node.get("not")
        if isinstance(negated, dict) and negated.keys() == {"multipleOf"}:
            excluded = _factor(negated)
            if excluded and any(factor % excluded == 0 for factor in factors):
                return True
    return False


def _factor(node: dict[str, Any]) -> Fraction | None:
    """What numbers have to be multiples of; None if that is anything, or no valid factor."""
    given = node.get("multipleOf", 0)
    return exact(given) if 0 < given < math.inf else None


def strings_empty(nodes: Sequence[dict[str, Any]]) -> bool:
    """Whether there is no such string."""
    least, most = counts_of(nodes, "Length")
    for node in nodes:
        if "pattern" in node:
            shortest, longest = Matching(node["pattern"]).lengths
            least = max(least, shortest)
            most = min((each for each in (most, longest) if each is not None), default=None)
    if most is not None and least > most:
        return True
    prefixes = [p for node in nodes if (p := prefix_of(node.get("pattern", "")))]
    return any(
        not one.startswith(other) and not other.startswith(one)
        for at, one in enumerate(prefixes)
        for other in prefixes[:at]
    )
