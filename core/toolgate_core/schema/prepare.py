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

from ..errors import SchemaNotEnforceable, SchemaTooComplex
from ..pointer import escape
from .additional_properties import opened, says_open
from .engine_form import Order, fitted
from .keywords import ASSERTIONS
from .relaxation import (
    EVALUATING,
    UNEVALUATED,
    Occurrence,
    doubtful_ones,
    hard_ones,
    left_open,
    relaxed,
    within,
)
from .unsupported import HELD, NUMERIC, obstacles
from .walk import reachable, values

MAX_TRIES = 4_000
"""Hard occurrences, times subschemas, up to which each is tried by itself; beyond it, all that may
not be held go at once."""
MAX_SUBSCHEMAS = 3_000
"""A larger schema is not made canonical, which can take exponential time."""

MAX_DEPTH = 200
"""Levels of JSON."""

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
    search = _Search(schema)
    whole = search.without(frozenset())
    if whole is not None:
        return Prepared(whole, ())
    gone = search.least()
    rest = search.without(gone)
    return anything(schema) if rest is None else Prepared(rest, left_open(schema, gone))


def merged(schema: Any) -> Prepared | None:
    """By its canonical form, in which what contradicts itself is gone: for a plain schema that was
    refused as it is. None where that form is not held whole, and for other schemas, which had it
    already; raises SchemaNotEnforceable where nothing satisfies it."""
    made = _by_canonical_form(schema, Order(schema), whole=True) if _plain(schema) else None
    return None if made is None else Prepared(made, ())


def loosened(schema: Any) -> Prepared:
    """With every keyword taken out that an engine may refuse for what it says: for a schema whose
    `prepared` form was refused all the same."""
    gone = doubtful_ones(schema)
    rest = _held(relaxed(schema, gone), Order(schema), whole=False)
    return anything(schema) if rest is None else Prepared(rest, left_open(schema, gone))


def anything(schema: Any) -> Prepared:
    """Held to be of its type only: every other keyword is left to the check."""
    if not isinstance(schema, dict):
        return Prepared({}, ())
    held = {"type": schema["type"]} if "type" in schema else {}
    left = [k for k in schema if k in ASSERTIONS and k != "type"]
    return Prepared(held, tuple(Occurrence(f"/{escape(key)}", key) for key in left))


def check(schema: Any) -> None:
    """Raises SchemaNotEnforceable for what is no schema of 2020-12, or so deep that native code
    would run out of its stack."""
    if any(pointer.count("/") > MAX_DEPTH for pointer, _ in values(schema)):
        message = f"It is nested deeper than {MAX_DEPTH} levels."
        raise SchemaTooComplex(message, pointer="")
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


class _Search:
    """For the occurrences that have to be taken out of one schema."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._order = Order(schema)
        self._hard = hard_ones(schema)
        self._tried: dict[frozenset[Occurrence], Any] = {}

    def without(self, gone: frozenset[Occurrence]) -> Any:
        """The schema relaxed by these, as the engines hold it; None where they don't."""
        if gone not in self._tried:
            loose = relaxed(self._schema, gone) if gone else self._schema
            self._tried[gone] = _held(loose, self._order, whole=not gone)
        return self._tried[gone]

    def least(self) -> frozenset[Occurrence]:
        """Occurrences without which the rest is held. Those outside are tried before those inside,
        and what is kept is kept with all that is inside it."""
        hard = frozenset(self._hard)
        if len(hard) * sum(1 for _ in reachable(self._schema)) > MAX_TRIES:
            never = {o for o in hard if o.keyword in _NEVER_HELD}
            kept = {o for o in hard if o not in never and not self._inside(o) & never}
            return hard - kept if self._held_with(kept) else hard
        kept = set()
        for one in sorted(self._hard, key=lambda o: o.keyword in UNEVALUATED):
            more = kept | {one} | self._inside(one)
            if one not in kept and self._held_with(more):
                kept = more
        return hard - kept

    def _held_with(self, kept: set[Occurrence]) -> bool:
        gone = frozenset(self._hard) - kept
        silenced = any(o.keyword in EVALUATING for o in gone)
        if silenced and any(o.keyword in UNEVALUATED for o in kept):
            return False
        return self.without(gone) is not None

    def _inside(self, one: Occurrence) -> set[Occurrence]:
        return within(self._schema, one, self._hard)


def _held(schema: Any, order: Order, *, whole: bool) -> Any:
    """`schema` as the engines hold all of it; None where they don't. Raises SchemaNotEnforceable
    when it is the `whole` one and certain that nothing satisfies it."""
    made = None if _plain(schema) else _by_canonical_form(schema, order, whole=whole)
    if made is not None:
        return made
    found = fitted(schema, order)
    return None if any(obstacles(found)) else found


def _by_canonical_form(schema: Any, order: Order, *, whole: bool) -> Any:
    canonical = _canonical(schema)
    if canonical is None:
        return None
    if whole and canonical.satisfiability() == jsonschema_rs.canonical.Satisfiability.NO:
        raise SchemaNotEnforceable("No value satisfies it.", pointer="")
    made = canonical.to_json_schema()
    found = fitted(opened(made) if says_open(schema) else made, order)
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
