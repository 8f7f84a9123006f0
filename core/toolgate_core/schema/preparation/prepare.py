"""The schema that the grammar engines receive, and the keywords that it leaves to validation.

A schema of plain keywords stays as it is. jsonschema-rs makes all others canonical: it merges
`allOf`, distributes the keywords next to `anyOf` and `$ref`, negates the schema inside `not`, and
turns conditions and disjoint `oneOf` into `anyOf`. Most schemas are plain after that. In the
others, keywords are removed until the engines support the rest (removal.py). The removed keywords
are residual.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from ...errors import SchemaNotEnforceable, SchemaTooComplex
from ...errors.base import shortened
from ...pointer import escape
from ..keywords import ASSERTIONS
from ..regular.reading import parse
from ..regular.syntax import Look, Unsupported, every_part
from ..walk import values
from .engine_form import PropertyOrder
from .multiples import with_bounded_multiples
from .relaxation import Occurrence, removed_occurrences
from .removal import Search, canonical_engine_form, is_plain
from .year_zero import without_year_zero

MAX_SHOWN = 100
"""Maximum length of a pattern in a message, in characters."""
MAX_DEPTH = 200
"""Maximum nesting in levels of JSON."""


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
    return _search(without_year_zero(schema))


def prepare_canonical(schema: Any) -> PreparedSchema | None:
    """Prepare the canonical form of a plain schema that an engine refused. That form has no
    contradictions. The result is None if the form is not fully supported, and for other schemas,
    whose canonical form was used already. Raises SchemaNotEnforceable if no value satisfies it."""
    if not is_plain(schema):
        return None
    schema = without_year_zero(schema)
    form = canonical_engine_form(schema, PropertyOrder(schema), whole=True)
    return None if form is None else _prepared(schema, form, ())


def prepare_compilable(schema: Any, compiles: Callable[[Any], bool]) -> PreparedSchema:
    """Prepare a schema without the keywords without which an engine compiles the rest, such as a
    pattern that is too large for it. They are found by trying: an engine may refuse a value by
    itself or beside another one. `compiles`: whether the engine compiles a prepared schema."""
    return _search(without_year_zero(schema), compiles)


def _search(schema: Any, compiles: Callable[[Any], bool] | None = None) -> PreparedSchema:
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
        given, problem = error.instance, error.message
        if isinstance(given, str) and problem.endswith('is not a "regex"'):
            problem = problem_of(given)
        raise SchemaNotEnforceable(
            f"The schema is not a valid JSON Schema: {problem}.", pointer=path
        ) from error
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise SchemaNotEnforceable(
            f"The schema is not a valid JSON Schema: {error}.", pointer=""
        ) from error


def _prepared(schema: Any, rest: Any, removed: Collection[Occurrence]) -> PreparedSchema:
    if rest is None:
        return prepare_type_only(schema)
    return PreparedSchema(
        with_bounded_multiples(rest, schema), removed_occurrences(schema, removed)
    )


def problem_of(pattern: str) -> str:
    """Why the validator does not read a pattern."""
    said = f'{json.dumps(shortened(pattern, MAX_SHOWN), ensure_ascii=False)} is not a "regex"'
    try:
        part = parse(pattern)
    except (Unsupported, RecursionError) as unsupported:
        return f"{said}: {unsupported}"
    if any(isinstance(each, Look) and each.behind for each in every_part(part)):
        return (
            f"{said} that can be checked: its look-behind has no fixed length, and an assertion or "
            "a back-reference inside"
        )
    return said
