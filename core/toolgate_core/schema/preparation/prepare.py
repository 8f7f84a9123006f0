"""The schema that the grammar engines receive, and the keywords that it leaves to validation.

A schema of plain keywords stays as it is. jsonschema-rs makes all others canonical: it merges
`allOf`, distributes the keywords next to `anyOf` and `$ref`, negates the schema inside `not`, and
turns conditions and disjoint `oneOf` into `anyOf`. Most schemas are plain after that. In the
others, keywords are removed one by one until the engines support the rest. The removed keywords are
residual.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import jsonschema_rs

from ...errors import SchemaNotEnforceable, SchemaTooComplex
from ...pointer import escape
from ..additional_properties import has_open_objects, with_open_objects
from ..keywords import ASSERTIONS
from ..walk import reachable, values
from .engine_form import PropertyOrder, to_engine_form
from .relaxation import (
    EVALUATING,
    UNEVALUATED,
    Occurrence,
    hard_occurrences,
    occurrences_inside,
    refused_alone,
    relax,
    removed_occurrences,
    uncertain_occurrences,
)
from .rewrites.rewriting import rewritten
from .unsupported import NUMERIC, SUPPORTED, unsupported_keywords
from .year_zero import without_year_zero

MAX_TRIES = 4_000
"""Maximum number of hard occurrences times subschemas for which each occurrence is tried by itself.
Beyond it, all occurrences of keywords that no engine enforces are removed at once."""
MAX_SUBSCHEMAS = 3_000
"""Maximum number of subschemas for the canonical form, which can take exponential time."""

MAX_DEPTH = 200
"""Maximum nesting in levels of JSON."""
KEPT_SEARCHES = 8
"""Number of searches that are kept for the other preparations of the same schema, which follow if
an engine refuses the first one or if it leaves a part to validation."""

_PLAIN = SUPPORTED - {"allOf"}
_COMBINING = frozenset({"$ref", "anyOf"})
_NEVER_SUPPORTED = frozenset(
    {"$dynamicRef", "contains", "format", "pattern", "uniqueItems", *NUMERIC}
)


@dataclass(frozen=True)
class PreparedSchema:
    schema: Any
    """Accepts at least the instances of the given schema, in keywords that llguidance supports."""
    residual: tuple[Occurrence, ...]
    """Occurrences in the given schema that `schema` does not enforce."""


def prepare(schema: Any) -> PreparedSchema:
    """Prepare a normalised schema (`document`). Raises SchemaNotEnforceable if it is not a valid
    schema, or if no value satisfies it."""
    check_schema(schema)
    schema = without_year_zero(schema)
    whole = _search(schema, changed=False).without(frozenset())
    return _rewritten(schema, _prepare) if whole is None else PreparedSchema(whole, ())


def prepare_as_given(schema: Any) -> PreparedSchema:
    """Prepare a schema without the rewrites of single keywords, for an engine that refuses the
    rewritten form."""
    return _prepare(without_year_zero(schema), changed=False)


def prepare_closed(schema: Any) -> PreparedSchema:
    """Prepare a schema of which `prepare` leaves a part to validation. The result may exclude
    undeclared members of objects that declare properties."""
    return _rewritten(without_year_zero(schema), _prepare, closing=True)


def _prepare(schema: Any, changed: bool) -> PreparedSchema:
    search = _search(schema, changed)
    whole = search.without(frozenset())
    if whole is not None:
        return PreparedSchema(whole, ())
    removed = search.smallest_removal()
    return _prepared(schema, search.without(removed), removed)


def _rewritten(
    schema: Any, work: Callable[[Any, bool], PreparedSchema], *, closing: bool = False
) -> PreparedSchema:
    """Prepare the rewritten schema, or the given one if that leaves less to validation. The
    residual occurrences are those of the given one."""
    document = rewritten(schema, closing=closing)
    new = document.finish()
    made = work(new, new != schema)
    residual = dict.fromkeys(map(document.origin, made.residual))
    if residual and new != schema:
        unchanged = work(schema, False)
        if len(unchanged.residual) < len(residual):
            return unchanged
    return PreparedSchema(made.schema, tuple(residual))


def prepare_canonical(schema: Any) -> PreparedSchema | None:
    """Prepare the canonical form of a plain schema that an engine refused. That form has no
    contradictions. The result is None if the form is not fully supported, and for other schemas,
    whose canonical form was used already. Raises SchemaNotEnforceable if no value satisfies it."""
    if not _plain(schema):
        return None
    schema = without_year_zero(schema)
    form = _canonical_engine_form(schema, PropertyOrder(schema), whole=True)
    return None if form is None else PreparedSchema(form, ())


def prepare_without_refused(
    schema: Any, compiles: Callable[[dict[str, Any]], bool]
) -> PreparedSchema | None:
    """Prepare a schema without the keywords whose values an engine refuses by themselves, such as a
    pattern that it can't parse. Without them it may compile the rest. The result is None if there
    are none. `compiles`: whether the engine compiles a schema."""
    schema = without_year_zero(schema)
    if not refused_alone(schema, compiles):
        return None

    def work(schema: Any, changed: bool) -> PreparedSchema:
        refused = refused_alone(schema, compiles)
        search = _Search(schema, changed, refused)
        removed = search.smallest_removal()
        return _prepared(schema, search.without(removed), removed | refused)

    return _rewritten(schema, work)


def prepare_without_uncertain(schema: Any) -> PreparedSchema:
    """Prepare a schema without any keyword that an engine may refuse because of its value. For
    schemas whose prepared form was refused by an engine."""

    def work(schema: Any, changed: bool) -> PreparedSchema:
        removed = uncertain_occurrences(schema)
        order = PropertyOrder(schema)
        rest = _engine_form(relax(schema, removed), order, whole=False, changed=changed)
        return _prepared(schema, rest, removed)

    return _rewritten(without_year_zero(schema), work)


def prepare_type_only(schema: Any) -> PreparedSchema:
    """Keep the type alone. All other keywords are left to validation."""
    if not isinstance(schema, dict):
        return PreparedSchema({}, ())
    kept = {"type": schema["type"]} if "type" in schema else {}
    removed = [k for k in schema if k in ASSERTIONS and k != "type"]
    return PreparedSchema(kept, tuple(Occurrence(f"/{escape(key)}", key) for key in removed))


def check_schema(schema: Any) -> None:
    """Raise SchemaNotEnforceable if this is not a valid schema of 2020-12, or if it is nested so
    deeply that native code would overflow its stack."""
    if any(pointer.count("/") > MAX_DEPTH for pointer, _ in values(schema)):
        message = f"The schema is nested deeper than {MAX_DEPTH} levels."
        raise SchemaTooComplex(message, pointer="")
    try:
        jsonschema_rs.validator_for(schema, validate_formats=True, offline=True)
    except jsonschema_rs.ValidationError as error:
        path = "".join(f"/{escape(str(step))}" for step in error.instance_path)
        raise SchemaNotEnforceable(
            f"The schema is not a valid JSON Schema: {error.message}.", pointer=path
        ) from error
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise SchemaNotEnforceable(
            f"The schema is not a valid JSON Schema: {error}.", pointer=""
        ) from error


class _Search:
    """Search for the occurrences that must be removed from one schema."""

    def __init__(
        self, schema: Any, changed: bool, refused: frozenset[Occurrence] = frozenset()
    ) -> None:
        """`refused`: occurrences that are removed in any case."""
        self._schema = schema
        self._changed = changed
        self._refused = refused
        self._order = PropertyOrder(schema)
        self._hard = [each for each in hard_occurrences(schema) if each not in refused]
        self._tried: dict[frozenset[Occurrence], Any] = {}

    def without(self, removed: frozenset[Occurrence]) -> Any:
        """The engine form of the schema without these; None if the engines do not support it."""
        if removed not in self._tried:
            gone = removed | self._refused
            rest = relax(self._schema, gone) if gone else self._schema
            self._tried[removed] = _engine_form(
                rest, self._order, whole=not gone, changed=self._changed
            )
        return self._tried[removed]

    def smallest_removal(self) -> frozenset[Occurrence]:
        """Occurrences without which the engines support the rest. Outer ones are tried before inner
        ones. An occurrence is kept together with all occurrences inside it."""
        hard = frozenset(self._hard)
        if len(hard) * sum(1 for _ in reachable(self._schema)) > MAX_TRIES:
            never = {o for o in hard if o.keyword in _NEVER_SUPPORTED}
            others = {o for o in hard if o not in never and not self._inside(o) & never}
            return hard - others if self._is_supported_with(others) else hard
        kept: set[Occurrence] = set()
        # In groups: most occurrences can be kept, and each test makes a canonical form.
        groups = [sorted(self._hard, key=lambda o: o.keyword in UNEVALUATED)]
        while groups:
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


def _search(schema: Any, changed: bool) -> _Search:
    return _kept_search(json.dumps(schema), changed)


@lru_cache(KEPT_SEARCHES)
def _kept_search(schema: str, changed: bool) -> _Search:
    return _Search(json.loads(schema), changed)


def _prepared(schema: Any, rest: Any, removed: Collection[Occurrence]) -> PreparedSchema:
    if rest is None:
        return prepare_type_only(schema)
    return PreparedSchema(rest, removed_occurrences(schema, removed))


def _engine_form(schema: Any, order: PropertyOrder, *, whole: bool, changed: bool) -> Any:
    """The schema in the form that the engines support; None if they do not support all of it.
    Raises SchemaNotEnforceable if this is the `whole` schema and certainly no value satisfies it.
    `changed`: whether keywords were rewritten. Their schema may have contradictions, which the
    canonical form has not.
    """
    canonical = (
        None
        if _plain(schema) and not changed
        else _canonical_engine_form(schema, order, whole=whole)
    )
    if canonical is not None:
        return canonical
    form = to_engine_form(schema, order)
    return None if any(unsupported_keywords(form)) else form


def _canonical_engine_form(schema: Any, order: PropertyOrder, *, whole: bool) -> Any:
    canonical = _canonical(schema)
    if canonical is None:
        return None
    if whole and canonical.satisfiability() == jsonschema_rs.canonical.Satisfiability.NO:
        raise SchemaNotEnforceable("No value satisfies the schema.", pointer="")
    made = canonical.to_json_schema()
    form = to_engine_form(with_open_objects(made) if has_open_objects(schema) else made, order)
    return None if any(unsupported_keywords(form)) else form


def _plain(schema: Any) -> bool:
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
