"""Schemas that are refused before an engine gets them: invalid ones, and those that no finite value
satisfies. Of others, parts without a finite value are removed."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

import jsonschema_rs
from jsonschema_rs.canonical import find_unsatisfiable

from ...errors import SchemaNotEnforceable
from ...errors.base import shortened
from ...pointer import escape, pointer_of
from ..patterns import matches_nothing
from ..regular.parts import Unsupported
from ..regular.reading import parse
from ..walk import at_pointer, deep_copy, pointer_of_ref, reachable, subschemas

MAX_SHOWN = 100
"""Maximum length of a pattern in a message, in characters."""
MAX_ROUNDS = 50
"""Maximum number of visits of all subschemas in the search for those without a finite value. Of
2,401 real schemas, none needs more than 5."""


def check_schema(schema: Any) -> Any:
    """Return the schema, without the values of parts that no finite value satisfies: a member that
    requires itself is left out. Raise SchemaNotEnforceable if this is not a valid schema of
    2020-12, or if it has no finite value. `schema` is a canonical one, whose nesting is limited
    (`canonical`)."""
    _check_validity(schema)
    endless = _endless(schema)
    if "" in endless:
        raise _no_value(schema, endless)
    if not endless:
        return schema
    copy = deep_copy(schema)
    for node in [at_pointer(copy, pointer) for pointer in endless]:
        node["not"] = {}
    return copy


def _check_validity(schema: Any) -> None:
    try:
        jsonschema_rs.validator_for(schema, validate_formats=True, offline=True)
    except jsonschema_rs.ValidationError as error:
        path = pointer_of(error.instance_path)
        value, problem = error.instance, error.message
        if isinstance(value, str) and problem.endswith('is not a "regex"'):
            problem = problem_of(value)
        raise SchemaNotEnforceable(
            f"The schema is not a valid JSON Schema: {problem}.", pointer=path
        ) from error
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise SchemaNotEnforceable(
            f"The schema is not a valid JSON Schema: {error}.", pointer=""
        ) from error


def problem_of(pattern: str) -> str:
    """Why the validator does not read a pattern."""
    said = f'{json.dumps(shortened(pattern, MAX_SHOWN), ensure_ascii=False)} is not a "regex"'
    try:
        parse(pattern)
    except (Unsupported, RecursionError) as unsupported:
        return f"{said}: {unsupported}"
    return said


def unsatisfiable_part(schema: Any) -> str | None:
    """Return the JSON Pointer of the innermost subschema without a value if no value satisfies the
    schema; None if one may, or if that is not known."""
    try:
        pointers = find_unsatisfiable(schema, validate_formats=True, offline=True)
    except (ValueError, jsonschema_rs.ReferencingError, jsonschema_rs.ValidationError):
        return None
    parts = (each for each in pointers if not each.endswith(("/additionalProperties", "/items")))
    return max(parts, key=lambda pointer: pointer.count("/")) if "" in pointers else None


# --- patterns without a text, and references without an end ---


def _no_value(schema: Any, endless: Collection[str]) -> SchemaNotEnforceable:
    parts = [(pointer, node) for pointer, node in reachable(schema) if pointer in endless]
    for pointer, node in parts:
        if _has_no_text(node):
            return SchemaNotEnforceable(
                "No string matches the pattern. Write it without delimiters and flags (/…/i).",
                pointer=f"{pointer}/pattern",
            )
    references = (pointer_of_ref(node.get("$ref")) for _, node in parts)
    return SchemaNotEnforceable(
        "No finite value satisfies it, because it requires itself.",
        pointer=next((each for each in references if each is not None and each in endless), ""),
    )


def _has_no_text(schema: dict[str, Any]) -> bool:
    """Whether a schema of strings has a pattern that matches no text."""
    is_text = schema.get("type") in ("string", ["string"])
    return is_text and "pattern" in schema and matches_nothing(schema["pattern"])


def _endless(schema: Any) -> Collection[str]:
    """Return the JSON Pointers of the parts of a schema that no finite value satisfies, such as a
    property that requires itself. The engines accept such schemas, and a constrained model then
    writes until its tokens are used up. Only required parts are considered."""
    endless = {
        pointer: [*_needed(pointer, node)]
        for pointer, node in subschemas(schema)
        if isinstance(node, dict)
    }
    for _ in range(MAX_ROUNDS):
        before = len(endless)
        for pointer in [*reversed(endless)]:  # a schema after those inside it
            if not any(each <= endless.keys() for each in endless[pointer]):
                del endless[pointer]
        if len(endless) == before:
            return endless
    return ()


def _needed(pointer: str, schema: dict[str, Any]) -> Iterator[set[str]]:
    """Yield sets of JSON Pointers: of each set, a value needs one subschema."""
    if "enum" in schema or "const" in schema:
        return
    if _has_no_text(schema):
        yield {pointer}
    reference = pointer_of_ref(schema.get("$ref"))
    if reference is not None:
        yield {reference}
    for keyword in ("anyOf", "oneOf"):
        if schema.get(keyword):
            yield {f"{pointer}/{keyword}/{at}" for at in range(len(schema[keyword]))}
    yield from ({f"{pointer}/allOf/{at}"} for at in range(len(schema.get("allOf", ()))))
    if schema.get("type") == "object":
        yield from ({f"{pointer}/properties/{escape(name)}"} for name in schema.get("required", ()))
    if schema.get("type") == "array":
        first, least = len(schema.get("prefixItems", ())), int(schema.get("minItems", 0))
        yield from ({f"{pointer}/prefixItems/{at}"} for at in range(min(first, least)))
        if least > first:
            yield {f"{pointer}/items"}
