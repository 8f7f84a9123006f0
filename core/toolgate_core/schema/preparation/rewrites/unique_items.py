"""`uniqueItems` of enumerable items as alternatives: one for each way to choose the items that a
later one must not repeat. Where no two items can be equal, it says nothing."""

from __future__ import annotations

from typing import Any

from ..relaxation import Occurrence
from .arrays import MAX_VALUES, Arrays, distinct, key_of
from .document import Document
from .emptiness import Node

MAX_CASES = 40
MAX_ITEMS = 40
"""Maximum number of items of an array whose items are compared."""


def rewrite(document: Document, pointer: str, node: Node) -> None:
    if node.get("uniqueItems") is not True:
        return
    arrays = Arrays(document.emptiness, [document.beside(node, "uniqueItems")])
    domains = _domains(arrays)
    if domains is None:
        return
    conflicts = _conflicts(document, arrays, len(domains))
    if not any(conflicts) and arrays.most is not None and len(domains) >= arrays.most:
        del node["uniqueItems"]
        return
    ways = _ways(conflicts, domains)
    if ways is not None:
        for way in ways:
            document.made(way, Occurrence(f"{pointer}/uniqueItems", "uniqueItems"))
        document.replace(node, "uniqueItems", "anyOf", ways)


def _domains(arrays: Arrays) -> list[list[Any] | None] | None:
    """The values of each item, as far as there can be items without repetitions (None: they are not
    listed). The result is None if there can be too many items."""
    most = MAX_ITEMS + 1 if arrays.most is None else min(arrays.most, MAX_ITEMS + 1)
    domains: list[list[Any] | None] = []
    values: list[Any] = []
    for at in range(most):
        domain = domains[-1] if at > arrays.first else arrays.domain(at)
        domains.append(domain)
        if domain is not None and at <= arrays.first:
            values = distinct([*values, *domain])
        if len(values) > MAX_VALUES:
            return None
        if None not in domains and len(domains) > len(values):
            return domains[: len(values)]
    return domains if len(domains) <= MAX_ITEMS else None


def _conflicts(document: Document, arrays: Arrays, count: int) -> list[list[int]]:
    """For each item, the earlier ones that can be equal to it."""
    known: dict[tuple[int, int], bool] = {}

    def can_be_equal(earlier: int, at: int) -> bool:
        places = (min(earlier, arrays.first), min(at, arrays.first))
        if places not in known:
            both = [*arrays.item(places[0]), *arrays.item(places[1])]
            known[places] = not document.emptiness.never(*both)
        return known[places]

    return [[each for each in range(at) if can_be_equal(each, at)] for at in range(count)]


def _ways(conflicts: list[list[int]], domains: list[list[Any] | None]) -> list[Node] | None:
    """Alternatives for the items. The result is None if there are too many, or if the values of
    items that can be equal are not listed."""
    decisive = {each for earlier in conflicts for each in earlier}
    if any(domains[at] is None for at in range(len(domains)) if at in decisive or conflicts[at]):
        return None
    ways: list[Node] = []
    pending: list[list[Any]] = [[]]
    while pending:
        first = pending.pop()
        at = len(first)
        options: list[Any] = []
        if at < len(domains):
            taken = {key_of(first[each]["const"]) for each in conflicts[at]}
            left = [value for value in domains[at] or () if key_of(value) not in taken]
            if at in decisive:
                options = [{"const": value} for value in reversed(left)]
            elif taken:
                options = [{"enum": left}] if left else []
            else:
                options = [True]
        if not options:
            ways.append({"prefixItems": first, "maxItems": at} if first else {"maxItems": at})
        pending += [[*first, option] for option in options]
        if len(ways) + len(pending) > MAX_CASES:
            return None
    return ways
