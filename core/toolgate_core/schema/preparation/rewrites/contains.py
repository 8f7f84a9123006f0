"""`contains` as alternatives: which items satisfy its schema, and which do not. This is possible if
arrays have few items, or if either all or none of their later items satisfy it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice
from typing import Any, Literal

from ..relaxation import Occurrence
from .arrays import Arrays
from .document import Document
from .emptiness import Node
from .facts import TYPES
from .negation import Negation, NotExpressible
from .other_values import any_of

MAX_WAYS = 24
MAX_ITEMS = 24
"""Maximum number of items for which each has a status of its own."""
COUNTS = ("minContains", "maxContains")
_NO_ARRAY = {"type": sorted(TYPES - {"array"})}

Status = Literal["all", "some", "none"]
"""Which values of an item satisfy the schema of `contains`."""


def rewrite(document: Document, pointer: str, node: Node) -> None:
    if "contains" not in node:
        return
    items = _Items(document, node)
    try:
        conditions = [
            [*islice(ways, MAX_WAYS + 1)]
            for ways in (
                items.at_least(node.get("minContains", 1)),
                items.at_most(node.get("maxContains")),
            )
        ]
    except NotExpressible:
        return
    if any(len(ways) > MAX_WAYS for ways in conditions):
        return
    for ways in conditions:
        for way in ways:
            document.made(way, Occurrence(f"{pointer}/contains", "contains"))
    for keyword in COUNTS:
        node.pop(keyword, None)
    both = [any_of(ways or [dict(_NO_ARRAY)]) for ways in conditions if ways != [{}]]
    document.replace(node, "contains", "allOf", both or [{}])


class _Items:
    """The items of the arrays of a node, by their status."""

    def __init__(self, document: Document, node: Node) -> None:
        self._document = document
        self._contains = node["contains"]
        self._arrays = Arrays(document.emptiness, [document.beside(node, "contains", *COUNTS)])
        most = self._arrays.most
        few = most is not None and most <= MAX_ITEMS
        first = most if few and most is not None else self._arrays.first
        self._first = [self._status(at) for at in range(first)]
        self._later: Status = "none" if few else self._status(first)
        """The status of all items after the first ones."""
        self._open = [at for at, status in enumerate(self._first) if status == "some"]

    def at_least(self, count: int) -> Iterator[Node]:
        """Ways to have so many items that satisfy `contains`. Raises NotExpressible."""
        if count == 0:
            yield {}
        elif self._later == "some":
            raise NotExpressible
        enough: int | None = None
        for size in range(min(count, len(self._open)) + 1 if count else 0):
            others = self._place(count - size - 1) if size < count else -1
            if others is None:
                continue
            for chosen in combinations(self._open, size):
                length = max(others, *chosen, -1) + 1
                if not chosen:
                    enough = length
                elif enough is not None and length >= enough:
                    continue
                first = [self._contains if at in chosen else True for at in range(length)]
                yield {"minItems": length} | ({"prefixItems": first} if chosen else {})

    def at_most(self, count: int | None) -> Iterator[Node]:
        """Ways to have no more such items. Raises NotExpressible."""
        if count is None:
            yield {}
        elif count == 0:
            yield {"items": self._other([])}
        elif self._later == "some":
            raise NotExpressible
        else:
            sizes = range(min(count, len(self._open)) + 1)
            for size in sizes if self._place(0) is not None else sizes[-1:]:
                most = self._place(count - size)
                for chosen in combinations(self._open, size):
                    first = [
                        self._other(self._arrays.item(at))
                        if status == "some" and at not in chosen
                        else True
                        for at, status in enumerate(self._first[:most])
                    ]
                    way: Node = {} if most is None else {"maxItems": most}
                    yield (
                        way if all(each is True for each in first) else way | {"prefixItems": first}
                    )

    def _other(self, beside: list[Any]) -> Any:
        return any_of(Negation(self._document).of(self._contains, *beside))

    def _place(self, number: int) -> int | None:
        """The place of an item that always satisfies `contains`, by its number among these."""
        places = [at for at, status in enumerate(self._first) if status == "all"]
        if number < len(places):
            return places[number]
        return len(self._first) + number - len(places) if self._later == "all" else None

    def _status(self, at: int) -> Status:
        schemas = self._arrays.item(at)
        if self._document.emptiness.never(self._contains, *schemas):
            return "none"
        try:
            return "some" if Negation(self._document).of(self._contains, *schemas) else "all"
        except NotExpressible:
            return "some"
