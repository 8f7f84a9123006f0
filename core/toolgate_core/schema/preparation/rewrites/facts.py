"""What single keywords of a schema say about types, numbers and strings."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

TYPES = frozenset({"array", "boolean", "null", "number", "object", "string"})
"""The types of JSON. Integers are numbers here."""
_LITERAL = re.compile(r"(?:[\w/:@#,;=&%!~ \"'<>-]|\\[./\\$^()\[\]{}|*+?-])+(?![*+?{])", re.ASCII)
_QUANTIFIED = re.compile(r"(?:[^\\]|\\.)(?=[*+?{])")


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
        if not self.whole or math.inf in (-self.low, self.high):
            return False
        low, high = math.ceil(self.low), math.floor(self.high)
        low += self.low_open and low == self.low
        high -= self.high_open and high == self.high
        return low > high


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


def _whole(node: dict[str, Any]) -> bool:
    """Whether all numbers that `type` allows are integers."""
    given = node.get("type")
    names = [given] if isinstance(given, str) else given or ["number"]
    return "integer" in names and "number" not in names


def prefix_of(pattern: str) -> str | None:
    """The text with which all strings of a pattern begin; None if none is known."""
    if not pattern.startswith("^") or "|" in pattern:
        return None
    found = _LITERAL.match(pattern, 1)
    if found is None:
        return None
    return re.sub(r"\\(.)", r"\1", found.group())


def counts_of(nodes: Sequence[dict[str, Any]], of: str) -> tuple[int, int | None]:
    """The least and the largest number of items, members or characters. `of`: the end of the
    keywords."""
    least = max((node.get(f"min{of}", 0) for node in nodes), default=0)
    most = [node[f"max{of}"] for node in nodes if f"max{of}" in node]
    return int(least), min(most, default=None)


def no_multiple(nodes: Sequence[dict[str, Any]]) -> bool:
    """Whether a `not` excludes all multiples that a `multipleOf` asks for."""
    factors = [Fraction(str(node["multipleOf"])) for node in nodes if "multipleOf" in node]
    for node in nodes:
        negated = node.get("not")
        if isinstance(negated, dict) and negated.keys() == {"multipleOf"}:
            excluded = Fraction(str(negated["multipleOf"]))
            if any(factor % excluded == 0 for factor in factors):
                return True
    return False


def strings_empty(nodes: Sequence[dict[str, Any]]) -> bool:
    """Whether there is no such string."""
    least, most = counts_of(nodes, "Length")
    if most is not None and least > most:
        return True
    prefixes = [p for node in nodes if (p := prefix_of(node.get("pattern", "")))]
    return any(
        not one.startswith(other) and not other.startswith(one)
        for at, one in enumerate(prefixes)
        for other in prefixes[:at]
    )
