"""The items that arrays of several schemas can have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...canonical import canonical_json
from .emptiness import Emptiness, item_of, listed_in
from .facts import TYPES, types_of

MAX_CHOICES = 8
"""Maximum nesting of alternatives that a domain follows."""
MAX_VALUES = 64
"""Maximum number of values in a domain."""


class Arrays:
    """Arrays that satisfy all these schemas."""

    def __init__(self, emptiness: Emptiness, schemas: Sequence[Any]) -> None:
        self._emptiness = emptiness
        self._nodes = emptiness.conjuncts(schemas)
        self.most = emptiness.most_items(schemas)
        """The largest number of items; None if there is none."""
        self.first = max((len(node.get("prefixItems", ())) for node in self._nodes), default=0)
        """The number of first items with schemas of their own. All later ones have the same."""
        for at in range(self.first + 1):
            if (self.most is None or at < self.most) and emptiness.never(*self.item(at)):
                self.most = at
                break

    def item(self, at: int) -> list[Any]:
        """The schemas of the item at this place."""
        return [item_of(node, at) for node in self._nodes]

    def domain(self, at: int) -> list[Any] | None:
        """The values that the item at this place can have; None if they are not listed, or more
        than MAX_VALUES."""
        schemas = self.item(at)
        found = _listed(self._emptiness, schemas, MAX_CHOICES)
        if found is None or len(found) > MAX_VALUES:
            return None
        return [v for v in distinct(found) if not self._emptiness.never({"const": v}, *schemas)]


def distinct(values: Iterable[Any]) -> list[Any]:
    """Values without those that equal earlier ones."""
    return [*{key_of(value): value for value in reversed([*values])}.values()][::-1]


def key_of(value: Any) -> str:
    """A text that values have in common exactly if they are equal in JSON Schema."""
    return canonical_json(_whole(value))


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [*map(_whole, value)]
    return {k: _whole(v) for k, v in value.items()} if isinstance(value, dict) else value


def _listed(emptiness: Emptiness, schemas: Sequence[Any], depth: int) -> list[Any] | None:
    """Values that include all those of the schemas."""
    nodes, choices = emptiness.parts(schemas)
    listed = listed_in(nodes)
    if listed is not None:
        return listed
    types = TYPES.intersection(*map(types_of, nodes))
    if types <= {"boolean", "null"}:
        return [*[False, True] * ("boolean" in types), *[None] * ("null" in types)]
    for options in choices if depth else ():
        inside = [_listed(emptiness, [option], depth - 1) for option in options]
        if None not in inside:
            return [value for values in inside for value in values or ()]
    return None
