"""Narrower strings and numbers: simple ones that a validator accepts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from fractions import Fraction
from itertools import chain
from math import gcd, lcm
from typing import Any

from ..rewrites.document import Document
from ..rewrites.emptiness import Node
from ..rewrites.facts import types_of
from ..unsupported import EXACT
from .samples import parts_of

TEXTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("^[a-z][a-z0-9]*$", ("a", "ab", "b1", "name", "customer2", "z" * 20)),
    ("^[a-z]+$", ("a", "ab", "name", "z" * 20)),
    ("^[A-Z][a-zA-Z0-9]*$", ("A", "Ab", "B1", "Name", "Z" * 20)),
    ("^[0-9]+$", ("0", "10", "123", "9" * 12)),
    (r"^[a-z]+(?:\.[a-z]+)+$", ("a.b", "org.example.name")),
    ("^/[a-z]+(?:/[a-z]+)*$", ("/a", "/path/name")),
    (r"^https://[a-z]+\.[a-z]{2,3}(?:/[a-z]+)*$", ("https://example.org", "https://a.bc/d/e")),
    (r"^[a-z]+@[a-z]+\.[a-z]{2,3}$", ("a@b.cd", "name@example.org")),
)
"""Patterns, and strings of each."""
NUMBERS = (*range(0, 41), *range(50, 1_001, 10), *range(-1, -21, -1), 0.5, 1.5, 2.25, 6.75, -0.5)
MULTIPLES = (*range(0, 30), -1, -2, -3)
BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
MAX_LISTED = 16


def narrow_values(document: Document, pointer: str, node: Node) -> None:
    """A pattern of which the validator accepts the samples; otherwise numbers that it accepts."""
    accepts, types = document.accepts(pointer), types_of(node)
    if "string" in types:
        least, most = node.get("minLength", 0), node.get("maxLength", 100)
        for pattern, samples in TEXTS:
            fitting = [text for text in samples if least <= len(text) <= most]
            if fitting and all(map(accepts, fitting)):
                _replace(node, {"type": "string", "pattern": pattern})
                node |= {"minLength": least} if least else {}
                node |= {"maxLength": most} if most < 100 else {}
                return
    narrow_numbers(document, pointer, node)


def narrow_numbers(document: Document, pointer: str, node: Node) -> None:
    """Numbers that the validator accepts."""
    if "number" not in types_of(node):
        return
    accepts = document.accepts(pointer)
    found = [number for number in numbers_near(parts_of(document, node)) if accepts(number)]
    if found:
        _replace(node, {"enum": found[:MAX_LISTED]})


def numbers_near(parts: Iterable[Node]) -> Iterator[float]:
    """Multiples and bounds that schemas name, numbers beside them, and small ones."""
    factors = set[Fraction]()
    near = set[float]()
    together = set[Fraction]()
    for part in parts:
        factors |= _factors(part)
        near |= {part[each] for each in BOUNDS if each in part}
        together.add(_multiple([*_factors(part), *chain(*map(_factors, part.get("allOf", ())))]))
    steps = sorted({_multiple(factors), *factors, *together}, reverse=True)
    for step in steps:
        yield from (_number(step * times) for times in MULTIPLES)
    for bound in sorted(near):
        yield from (bound, bound + 1, bound - 1)
        for step in steps:
            times = Fraction(str(bound)) // step
            yield from (_number(step * (times + more)) for more in (-2, -1, 0, 1, 2))
    yield from NUMBERS


def _factors(node: Any) -> set[Fraction]:
    named = isinstance(node, dict) and "multipleOf" in node
    return {Fraction(str(node["multipleOf"]))} if named else set()


def _multiple(factors: Collection[Fraction]) -> Fraction:
    """The least common multiple, 1 of none."""
    if not factors:
        return Fraction(1)
    return Fraction(lcm(*(f.numerator for f in factors)), gcd(*(f.denominator for f in factors)))


def _number(value: Fraction) -> float:
    return int(value) if value.denominator == 1 else float(value)


def narrow_multiples(document: Document, pointer: str, node: Node) -> None:
    """Engines enforce multiples that are not negative."""
    if node.get("maximum", 1) >= 0 and node.get("exclusiveMaximum", 1) > 0:
        node["minimum"] = max(0, node.get("minimum", 0))
    else:
        narrow_values(document, pointer, node)


def narrow_bounds(document: Document, pointer: str, node: Node) -> None:
    """Bounds that double precision represents exactly."""
    for keyword in BOUNDS:
        if keyword in node:
            node[keyword] = max(-EXACT, min(EXACT, node[keyword]))


def _replace(node: Node, keywords: dict[str, Any]) -> None:
    for keyword in [k for k in node if k != "$defs" and k != "definitions"]:
        del node[keyword]
    node.update(keywords)
