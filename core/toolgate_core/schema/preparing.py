"""A tool's schema as the grammar engines are given it, and what that leaves to the check.

A schema of plain keywords goes as it is. Everything else is first made canonical by jsonschema-rs,
which merges `allOf`, distributes what stands beside `anyOf` and `$ref`, negates what is under `not`
and turns conditions and disjoint `oneOf` into `anyOf`: after that most schemas are plain. What then
still isn't is relaxed, occurrence by occurrence, until the rest is; those occurrences are residual.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any

import jsonschema_rs

from ..errors import SchemaNotEnforceable
from ..pointer import escape
from .fitting import Order, fitted
from .keywords import ASSERTIONS
from .obstacles import HELD, NUMERIC, obstacles
from .relaxing import (
    EVALUATING,
    UNEVALUATED,
    Occurrence,
    doubtful_ones,
    hard_ones,
    left_open,
    relaxed,
    within,
)
from .walk import reachable

MAX_TRIES = 4_000
"""Hard occurrences, times subschemas, up to which each is tried by itself; beyond it, all that may
not be held go at once."""
MAX_SUBSCHEMAS = 3_000
"""A larger schema is not made canonical, which can take exponential time."""

_PLAIN = HELD - {"allOf"}
_COMBINING = frozenset({"$ref", "anyOf"})
_NEVER_HELD = frozenset({"$dynamicRef", "contains", "format", "pattern", "uniqueItems", *NUMERIC})


@dataclass(frozen=True)
class Prepared:
    schema: Any
    """Admits what the given one does and is written in keywords that llguidance knows."""
    residual: tuple[Occurrence, ...]
    """Occurrences in the given schema that this one leaves open."""


def prepared(schema: Any) -> Prepared:
    """`schema` is normalised (`document`). Raises SchemaNotEnforceable for one that is not valid as
    a schema, or that nothing satisfies."""
    check(schema)
    order = Order(schema)
    whole = _held(schema, order)
    if whole is not None:
        return Prepared(whole, ())
    if unsatisfiable(schema):
        raise SchemaNotEnforceable("No value satisfies it.", pointer="")
    hard = hard_ones(schema)
    gone = set(hard) - _kept(schema, hard, order)
    rest = _held(relaxed(schema, gone), order)
    if rest is None:
        return anything(schema)
    return Prepared(rest, left_open(schema, gone))


def loosened(schema: Any) -> Prepared:
    """With every keyword taken out that an engine may refuse for what it says: for a schema whose
    `prepared` form was refused all the same."""
    gone = doubtful_ones(schema)
    rest = _held(relaxed(schema, gone), Order(schema))
    return anything(schema) if rest is None else Prepared(rest, left_open(schema, gone))


def anything(schema: Any) -> Prepared:
    """Held to be of its type only: every other keyword is left to the check."""
    if not isinstance(schema, dict):
        return Prepared({}, ())
    held = {"type": schema["type"]} if "type" in schema else {}
    left = [k for k in schema if k in ASSERTIONS and k != "type"]
    return Prepared(held, tuple(Occurrence(f"/{escape(key)}", key) for key in left))


def check(schema: Any) -> None:
    """Raises SchemaNotEnforceable for what is no schema of 2020-12."""
    try:
        jsonschema_rs.validator_for(schema, validate_formats=True, offline=True)
    except jsonschema_rs.ValidationError as error:
        path = "".join(f"/{escape(str(step))}" for step in error.instance_path)
        raise SchemaNotEnforceable(
            f"It is not a valid JSON Schema: {error.message}.", pointer=path
        ) from error
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise SchemaNotEnforceable(
            f"It is not a valid JSON Schema: {error}.", pointer=""
        ) from error


def unsatisfiable(schema: Any) -> bool:
    """Whether it is certain that nothing satisfies it."""
    canonical = _canonical(schema)
    no = jsonschema_rs.canonical.Satisfiability.NO
    return canonical is not None and canonical.satisfiability() == no


def _kept(schema: Any, hard: list[Occurrence], order: Order) -> set[Occurrence]:
    """The hard occurrences that can stay, all of them together. Those outside are tried before
    those inside, and what is kept is kept with all that is inside it."""
    last = [*hard]
    last.sort(key=lambda occurrence: occurrence.keyword in UNEVALUATED)

    def stay(some: set[Occurrence]) -> bool:
        gone = set(hard) - some
        if any(o.keyword in EVALUATING for o in gone) and any(
            o.keyword in UNEVALUATED for o in some
        ):
            return False
        return _held(relaxed(schema, gone), order) is not None

    if len(hard) * sum(1 for _ in reachable(schema)) > MAX_TRIES:
        never = {o for o in hard if o.keyword in _NEVER_HELD}
        rest = {o for o in hard if o not in never and not within(schema, o, never)}
        return rest if stay(rest) else set()
    kept: set[Occurrence] = set()
    for one in last:
        more = kept | {one} | within(schema, one, hard)
        if one not in kept and stay(more):
            kept = more
    return kept


def _held(schema: Any, order: Order) -> Any:
    """`schema` as the engines hold all of it; None where they don't."""
    if not _plain(schema):
        canonical = _canonical(schema)
        if canonical is not None:
            found = fitted(canonical.to_json_schema(), order)
            if not any(obstacles(found)):
                return found
    found = fitted(schema, order)
    return None if any(obstacles(found)) else found


def _plain(schema: Any) -> bool:
    """Whether it is made of keywords that are held wherever they stand."""
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
