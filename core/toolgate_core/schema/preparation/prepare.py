"""The schema that the grammar engines receive, and the keywords that it leaves to validation.

A schema of plain keywords stays as it is. jsonschema-rs makes all others canonical: it merges
`allOf`, distributes the keywords next to `anyOf` and `$ref`, negates the schema inside `not`, and
turns conditions and disjoint `oneOf` into `anyOf`. Most schemas are plain after that. In the
others, keywords are removed until the engines support the rest (`Search`). The removed keywords
are residual.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal

from ...pointer import escape
from ..keywords import ASSERTIONS, CHECKED
from ..patterns import is_maskable
from ..walk import (
    at_pointer,
    deep_copy,
    find_references,
    move_targets_to_defs,
    reachable,
    schema_objects,
    schemas_in,
)
from .checks import check_schema
from .engine_form import (
    BOUNDS,
    EXACT,
    NUMERIC,
    PropertyOrder,
    canonical_engine_form,
    engine_form,
    is_exact,
    traits,
)


@dataclass(frozen=True)
class Occurrence:
    """One occurrence of a keyword in a schema."""

    pointer: str
    """JSON Pointer of the keyword."""
    keyword: str

    @property
    def owner(self) -> str:
        """JSON Pointer of the subschema that has the keyword."""
        return self.pointer.rpartition("/")[0]


@dataclass(frozen=True)
class PreparedSchema:
    schema: Any
    """Accepts at least the instances of the given schema, in keywords that llguidance supports."""
    residual: tuple[Occurrence, ...]
    """Occurrences in the given schema that `schema` does not enforce."""


def prepare(schema: Any) -> PreparedSchema:
    """Prepare a normalised schema (`document`). Raise SchemaNotEnforceable if it is not a valid
    schema, or if no value satisfies it."""
    return prepare_compilable(check_schema(schema))


def prepare_canonical(schema: Any) -> PreparedSchema | None:
    """Prepare the canonical form of a plain schema that an engine refused. That form has no
    contradictions. The result is None if the form is not fully supported, and for other schemas,
    whose canonical form was used already. Raise SchemaNotEnforceable if no value satisfies it."""
    if not all(traits(schema)):
        return None
    form = canonical_engine_form(schema, PropertyOrder(schema), whole=True)
    return None if form is None else _prepared(schema, form, ())


def prepare_compilable(
    schema: Any, compiles: Callable[[Any], bool] | None = None
) -> PreparedSchema:
    """Prepare a schema without the keywords without which an engine compiles the rest, such as a
    pattern that is too large for it. They are found by trying: an engine may refuse a value by
    itself or beside another one. `compiles`: whether the engine compiles a prepared schema; None:
    it compiles what it supports."""
    search, removed = Search(schema, compiles), frozenset[Occurrence]()
    if search.without(removed) is None:
        removed = search.smallest_removal()
    return _prepared(schema, search.without(removed), removed)


def prepare_type_only(schema: Any) -> PreparedSchema:
    """Keep the type alone. All other keywords are left to validation."""
    if not isinstance(schema, dict):
        return PreparedSchema({}, ())
    kept = {"type": schema["type"]} if "type" in schema else {}
    removed = [k for k in schema if k in ASSERTIONS and k != "type"]
    return PreparedSchema(kept, tuple(Occurrence(f"/{escape(key)}", key) for key in removed))


def _prepared(schema: Any, rest: Any, removed: Collection[Occurrence]) -> PreparedSchema:
    if rest is None:
        return prepare_type_only(schema)
    return PreparedSchema(
        with_bounded_multiples(rest, schema), removed_occurrences(schema, removed)
    )


SMALL = EXACT // 2
"""Largest number of a schema whose multiples get a bound. A larger one, wherever it is, may ask for
multiples beyond the bound."""


def with_bounded_multiples(form: Any, schema: Any) -> Any:
    """Return the engine form of `schema`, in which multiples end at 2^53. Digits could go on
    without ever being a multiple."""
    unbounded = any(map(_is_unbounded, schema_objects(form)))
    if not unbounded or not all(map(_is_small, schema_objects(schema))):
        return form
    form = deep_copy(form)
    for node in filter(_is_unbounded, schema_objects(form)):
        node["maximum"] = EXACT
    return form


def _is_unbounded(node: dict[str, Any]) -> bool:
    return "multipleOf" in node and not {"maximum", "exclusiveMaximum"} & node.keys()


def _is_small(node: dict[str, Any]) -> bool:
    return all(is_exact(node[keyword], SMALL) for keyword in NUMERIC & node.keys())


# --- removal of keywords: a schema then accepts more instances, never fewer ---

TOGETHER = {
    "if": ("if", "then", "else"),
    "contains": ("contains", "minContains", "maxContains"),
    # Without the patterns, members that match one would become additional properties.
    "patternProperties": ("patternProperties", "additionalProperties"),
}
"""Keywords that are removed together with the first one, since their meaning depends on it."""

OPAQUE = frozenset(
    {
        *("contains", "dependentSchemas", "else", "if", "not", "oneOf", "propertyNames"),
        "then",
    }
)
"""Keywords whose content is kept or removed as a whole. Accepting more inside them can mean
accepting less outside."""

_OPAQUE_ONLY = OPAQUE - {"oneOf"}

EVALUATING = frozenset(
    {"$dynamicRef", "contains", "dependentSchemas", "if", "not", "patternProperties"}
)
UNEVALUATED = frozenset({"unevaluatedItems", "unevaluatedProperties"})
"""These refuse members and items that no keyword of `EVALUATING` covers. If one of those keywords
is removed, these must be removed too."""

HARD = frozenset(
    {
        *("$dynamicRef", "contains", "dependentRequired", "dependentSchemas", "if"),
        *("maxProperties", "minProperties", "multipleOf", "not", "oneOf"),
        *("patternProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties"),
        "uniqueItems",
    }
)
"""Keywords that no engine enforces, or only in some combinations."""

Reason = Literal["hard", "uncertain"]
"""Why an occurrence may have to be removed: no engine enforces the keyword in every schema, or an
engine may not support the value, such as a pattern that it cannot parse."""
_COUNTS = frozenset({"maxItems", "maxLength", "minItems", "minLength"})
MANY = 1_000
"""Counts above this may be refused by an engine."""


def occurrences(schema: Any) -> dict[Occurrence, Reason]:
    """Return the occurrences that may have to be removed, in the schema's order, with the reason.
    They include those inside a `oneOf`, which can become an `anyOf`."""
    return {
        Occurrence(f"{pointer}/{escape(keyword)}", keyword): reason
        for pointer, node in reachable(schema, opaque=_OPAQUE_ONLY)
        for keyword, value in node.items()
        if (reason := _reason(keyword, value)) is not None
    }


def _reason(keyword: str, value: Any) -> Reason | None:
    if keyword in HARD:
        return "hard"
    if keyword in NUMERIC:
        return None if is_exact(value) else "hard"
    if keyword == "pattern":
        return "uncertain" if is_maskable(value) else "hard"
    if keyword == "format":
        return "hard" if value in CHECKED else "uncertain"
    return "uncertain" if keyword in _COUNTS and value > MANY else None


def relax(schema: Any, occurrences: Collection[Occurrence]) -> Any:
    """Return a copy of `schema` without these occurrences, and without the keywords that depend on
    them. `oneOf` becomes `anyOf`. The copy accepts every instance that `schema` accepts."""
    schema = deep_copy(schema)
    references = find_references(schema)
    nodes = [(at_pointer(schema, o.owner), o.keyword) for o in occurrences]
    for node, keyword in nodes:
        if keyword == "oneOf":
            node["allOf"] = [*node.get("allOf", ()), {"anyOf": node["oneOf"]}]
        for removed in TOGETHER.get(keyword, (keyword,)):
            node.pop(removed, None)
        if keyword == "patternProperties":
            node["additionalProperties"] = True  # otherwise, grammars may close the object
    move_targets_to_defs(schema, references)
    return schema


def removed_occurrences(schema: Any, occurrences: Collection[Occurrence]) -> tuple[Occurrence, ...]:
    """Return all occurrences that `relax` removes for `occurrences`, in the schema's order."""
    removed = []
    for pointer, node in reachable(schema, opaque=_OPAQUE_ONLY):
        here = {o.keyword for o in occurrences if o.owner == pointer}
        here = {k for keyword in here for k in TOGETHER.get(keyword, (keyword,)) if k in node}
        removed += [Occurrence(f"{pointer}/{escape(k)}", k) for k in node if k in here]
    return tuple(removed)


def occurrences_inside(
    schema: Any, occurrence: Occurrence, others: Collection[Occurrence]
) -> set[Occurrence]:
    """If the keyword of `occurrence` is opaque: the occurrences among `others` that are inside it,
    also by reference. They are kept as long as `occurrence` is kept."""
    if occurrence.keyword not in OPAQUE:
        return set()
    node = at_pointer(schema, occurrence.owner)
    inside = {
        id(part)
        for keyword in TOGETHER.get(occurrence.keyword, (occurrence.keyword,))
        if keyword in node
        for start, _ in schemas_in(occurrence.owner, keyword, node[keyword])
        for _, part in reachable(schema, start=start)
    }
    return {o for o in others if id(at_pointer(schema, o.owner)) in inside}


# --- the fewest keywords that must be removed ---

MAX_TRIES = 4_000
"""Maximum number of hard occurrences times subschemas for which each occurrence is tried by itself.
Beyond it, all occurrences of keywords that no engine enforces are removed at once."""
MAX_COMPILED, MIN_COMPILED = 20_000, 10
"""Maximum number of schemas that are compiled in a search, times subschemas, but at least some.
Occurrences that were not tried are removed."""
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
        reasons = occurrences(schema).items()
        self._hard = [one for one, reason in reasons if compiles or reason == "hard"]
        self._tried: dict[frozenset[Occurrence], Any] = {}

    def without(self, removed: frozenset[Occurrence]) -> Any:
        """Return the engine form of the schema without these; None if the engines do not support
        it."""
        if removed not in self._tried:
            rest = relax(self._schema, removed) if removed else self._schema
            form = engine_form(rest, self._order, whole=not removed)
            if form is not None and self._compiles is not None and not self._compiles(form):
                form = None
            self._tried[removed] = form
        return self._tried[removed]

    def smallest_removal(self) -> frozenset[Occurrence]:
        """Return the occurrences without which the engines support the rest. Outer ones are tried
        before inner ones. An occurrence is kept together with all occurrences inside it."""
        hard = frozenset(self._hard)
        size = sum(1 for _ in reachable(self._schema))
        if self._compiles is None and len(hard) * size > MAX_TRIES:
            never = {o for o in hard if o.keyword in _NEVER_SUPPORTED}
            others = {o for o in hard if o not in never and not self._inside(o) & never}
            return hard - others if self._is_supported_with(others) else hard
        kept: set[Occurrence] = set()
        # In groups: most occurrences can be kept, and each test makes a canonical form.
        # Multiples are kept before large bounds, which models hardly reach.
        last = BOUNDS | UNEVALUATED
        groups = [sorted(self._hard, key=lambda o: o.keyword in last)]
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
