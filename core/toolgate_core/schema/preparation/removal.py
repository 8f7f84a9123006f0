"""Search for the keywords that must be removed from a schema so that engines support the rest, and
the form in which they support it."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import islice
from typing import Any

import jsonschema_rs

from ...errors import SchemaNotEnforceable
from ..closed_objects import has_open_objects, with_open_objects
from ..keywords import ASSERTIONS
from ..walk import reachable
from .engine_form import PropertyOrder, to_engine_form
from .relaxation import (
    EVALUATING,
    UNEVALUATED,
    Occurrence,
    hard_occurrences,
    occurrences_inside,
    relax,
    uncertain_occurrences,
)
from .unsupported import NUMERIC, SUPPORTED, unsupported_keywords

MAX_TRIES = 4_000
"""Maximum number of hard occurrences times subschemas for which each occurrence is tried by itself.
Beyond it, all occurrences of keywords that no engine enforces are removed at once."""
MAX_COMPILED, MIN_COMPILED = 20_000, 10
"""Maximum number of schemas that are compiled in a search, times subschemas, but at least some.
Occurrences that were not tried are removed."""
MAX_SUBSCHEMAS = 3_000
"""Maximum number of subschemas for the canonical form, which can take exponential time."""

_PLAIN = SUPPORTED - {"allOf"}
_COMBINING = frozenset({"$ref", "anyOf"})
_NEVER_SUPPORTED = frozenset(
    {"$dynamicRef", "contains", "format", "pattern", "uniqueItems", *NUMERIC}
)


class Search:
    """Search for the occurrences that must be removed from one schema."""

    def __init__(self, schema: Any, compiles: Callable[[Any], bool] | None = None) -> None:
        """`compiles`: whether an engine compiles a schema. Without it, engines are expected to
        compile what they support."""
        self._schema = schema
        self._compiles = compiles
        self._order = PropertyOrder(schema)
        self._hard = uncertain_occurrences(schema) if compiles else hard_occurrences(schema)
        self._tried: dict[frozenset[Occurrence], Any] = {}

    def without(self, removed: frozenset[Occurrence]) -> Any:
        """The engine form of the schema without these; None if the engines do not support it."""
        if removed not in self._tried:
            rest = relax(self._schema, removed) if removed else self._schema
            form = engine_form(rest, self._order, whole=not removed)
            if form is not None and self._compiles is not None and not self._compiles(form):
                form = None
            self._tried[removed] = form
        return self._tried[removed]

    def smallest_removal(self) -> frozenset[Occurrence]:
        """Occurrences without which the engines support the rest. Outer ones are tried before inner
        ones. An occurrence is kept together with all occurrences inside it."""
        hard = frozenset(self._hard)
        size = sum(1 for _ in reachable(self._schema))
        if self._compiles is None and len(hard) * size > MAX_TRIES:
            never = {o for o in hard if o.keyword in _NEVER_SUPPORTED}
            others = {o for o in hard if o not in never and not self._inside(o) & never}
            return hard - others if self._is_supported_with(others) else hard
        kept: set[Occurrence] = set()
        # In groups: most occurrences can be kept, and each test makes a canonical form.
        groups = [sorted(self._hard, key=lambda o: o.keyword in UNEVALUATED)]
        most = max(MIN_COMPILED, MAX_COMPILED // size) if self._compiles else math.inf
        while groups and len(self._tried) < most:
            group = [one for one in groups.pop() if one not in kept]
            more = kept.union(group, *map(self._inside, group))
            if self._is_supported_with(more):
                kept = more
            elif len(group) > 1:
                middle = len(group) // 2
                groups += [group[middle:], group[:middle]]
        return hard - kept

    def _is_supported_with(self, kept: set[Occurrence]) -> bool:
        removed = frozenset(self._hard) - kept
        fewer_evaluated = any(o.keyword in EVALUATING for o in removed)
        if fewer_evaluated and any(o.keyword in UNEVALUATED for o in kept):
            return False
        return self.without(removed) is not None

    def _inside(self, one: Occurrence) -> set[Occurrence]:
        return occurrences_inside(self._schema, one, self._hard)


def engine_form(schema: Any, order: PropertyOrder, *, whole: bool) -> Any:
    """The schema in the form that the engines support; None if they do not support all of it.
    Raises SchemaNotEnforceable if this is the `whole` schema and certainly no value satisfies it.
    """
    form = None if is_plain(schema) else canonical_engine_form(schema, order, whole=whole)
    if form is not None:
        return form
    form = to_engine_form(schema, order)
    return None if any(unsupported_keywords(form)) else form


def canonical_engine_form(schema: Any, order: PropertyOrder, *, whole: bool) -> Any:
    canonical = _canonical(schema)
    if canonical is None:
        return None
    if whole and canonical.satisfiability() == jsonschema_rs.canonical.Satisfiability.NO:
        raise SchemaNotEnforceable("No value satisfies the schema.", pointer="")
    made = canonical.to_json_schema()
    form = to_engine_form(with_open_objects(made) if has_open_objects(schema) else made, order)
    return None if any(unsupported_keywords(form)) else form


def is_plain(schema: Any) -> bool:
    """Whether the engines support all its keywords, in every combination."""
    for _, node in reachable(schema):
        keywords = node.keys() & ASSERTIONS
        if keywords - _PLAIN or (keywords & _COMBINING and len(keywords) > 1):
            return False
    return True


def _canonical(schema: Any) -> jsonschema_rs.CanonicalSchema | None:
    if sum(1 for _ in islice(reachable(schema), MAX_SUBSCHEMAS + 1)) > MAX_SUBSCHEMAS:
        return None
    try:
        return jsonschema_rs.canonicalize(schema, validate_formats=True, offline=True)
    except (ValueError, jsonschema_rs.ReferencingError, jsonschema_rs.ValidationError):
        return None
