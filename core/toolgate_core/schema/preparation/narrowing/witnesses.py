"""Objects that a schema accepts, found by trying.

Names of members are the shortest of each kind that the schema's patterns tell apart. Values are
simple ones, and objects of those. Of values that are valid for the same members, only a few are
used in larger objects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations, product
from typing import Any

from ...regular.kinds import shortest_of_each_kind
from ...regular.languages import Matching
from ..rewrites.document import Document
from ..rewrites.emptiness import listed_in
from .samples import parts_of
from .scalars import numbers_near

ROUNDS = 4
"""Maximum nesting of objects."""
MAX_PLACES = 24
MAX_PATTERNS = 12
MAX_NAMES = 80
MAX_CHECKS = 300_000
"""Maximum number of times that a value is validated against a schema."""
MAX_ALIKE = 2
"""Number of values kept that are valid in the same places."""
MAX_IN_PAIRS = 3
"""Number of values that are tried for each of two members."""
SCALARS = ("", "a", "name", 0, 1, True, False, None)

_OF_MEMBER = re.compile(
    r"/(?:(?:properties|patternProperties|prefixItems)/[^/]+|additionalProperties|items)$"
)

Object = dict[str, Any]


def witness(schema: Any) -> Object | None:
    """An object that the schema accepts; None if none is found."""
    document = Document(schema)
    return _Search(document, document.accepts("")).run()


def counterexample(schema: Any, of: Any) -> Object | None:
    """An object that the schema accepts although another one, which should accept all of its
    objects, does not; None if none is found."""
    document, whole = Document(schema), Document(of)
    accepts, expected = document.accepts(""), whole.accepts("")
    return _Search(document, lambda value: accepts(value) and not expected(value)).run()


def schema_of(found: Object) -> Object:
    """A schema of this object only."""
    return {
        "type": "object",
        "properties": {name: {"const": value} for name, value in found.items()},
        "required": [*found],
        "additionalProperties": False,
    }


class _Search:
    def __init__(self, document: Document, wanted: Callable[[Object], bool]) -> None:
        places = document.places()
        self._parts = [node for _, node in places]
        self._wanted = wanted
        inside = [pointer for pointer, _ in reversed(places) if _OF_MEMBER.search(pointer)]
        self._checks = [document.accepts(pointer) for pointer in inside[:MAX_PLACES]]
        names = [*self._declared(document), *self._invented()]
        self._names = [*dict.fromkeys(names)][:MAX_NAMES]
        self._kept: dict[tuple[bool, ...], list[Any]] = {}
        self._left = MAX_CHECKS

    def run(self) -> Object | None:
        candidates: Iterable[Any] = [*SCALARS, [], {}, *self._listed(), *numbers_near(self._parts)]
        for grown in (self._with_one, self._with_two):
            for _ in range(ROUNDS):
                for candidate in candidates:
                    if self._left <= 0:
                        return None
                    if isinstance(candidate, dict) and self._is_valid(self._wanted, candidate):
                        return candidate
                    self._keep(candidate)
                candidates = grown()
        return None

    def _is_valid(self, check: Callable[[Any], bool], value: Any) -> bool:
        self._left -= 1
        return check(value)

    def _keep(self, value: Any) -> None:
        valid = tuple(self._is_valid(check, value) for check in self._checks)
        alike = self._kept.setdefault(valid, [])
        if len(alike) < MAX_ALIKE and value not in alike:
            alike.append(value)

    def _with_one(self) -> Iterator[Object]:
        values = [value for alike in self._kept.values() for value in alike]
        for name, value in product(self._names, values):
            yield {name: value}

    def _with_two(self) -> Iterator[Object]:
        values = [value for alike in self._kept.values() for value in alike][:MAX_IN_PAIRS]
        for names in combinations(self._names, 2):
            for some in product(values, repeat=2):
                yield dict(zip(names, some, strict=True))
        yield from self._with_one()

    def _declared(self, document: Document) -> Iterator[str]:
        for part in self._parts:
            for keyword in ("required", "properties", "dependentRequired", "dependentSchemas"):
                yield from part.get(keyword, ())
            for names in parts_of(document, part.get("propertyNames")):
                yield from (text for text in listed_in([names]) or () if isinstance(text, str))

    def _invented(self) -> Iterable[str]:
        patterns: dict[str, None] = {}
        for part in self._parts:
            patterns |= dict.fromkeys(part.get("patternProperties", ()))
            patterns |= dict.fromkeys([part["pattern"]] if "pattern" in part else ())
        languages = [Matching(pattern) for pattern in patterns]
        regular = [each for each in languages if each.is_empty is not None]
        return shortest_of_each_kind(regular[:MAX_PATTERNS]).values()

    def _listed(self) -> Iterator[Any]:
        for part in self._parts:
            yield from listed_in([part]) or ()
