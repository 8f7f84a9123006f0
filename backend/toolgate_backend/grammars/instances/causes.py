"""The cause for which masks do not allow a valid instance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import jsonschema_rs

from toolgate_core.schema.closed_objects import close_objects

from .forms import Form, Text, written
from .order import nodes_at

Kind = Literal["white_space", "member_order", "number_form", "closed_object", "keyword"]

KEYWORDS = (
    *("format", "pattern", "const", "enum", "multipleOf"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("not", "oneOf", "anyOf", "allOf", "if", "dependentSchemas", "dependentRequired"),
    *("patternProperties", "propertyNames", "unevaluatedProperties", "additionalProperties"),
    *("prefixItems", "items", "contains", "uniqueItems", "required", "properties", "$ref", "type"),
)
"""The first of these at the place of a refusal is named as its cause."""


@dataclass(frozen=True)
class Cause:
    kind: Kind
    keyword: str
    pointer: str
    """JSON Pointer in the instance, where the first token is refused."""


def cause_of(
    value: Any,
    form: Form,
    schema: dict[str, Any],
    refused_at: Callable[[Text], int | None],
    separators: tuple[str, str] = (", ", ": "),
) -> Cause | None:
    """Why a text of a valid value is refused. `refused_at` gives the byte of the first refused
    token, None for a text that is allowed. `schema` is the one that the engine was given,
    `separators` are those of the dialect. None: the text is allowed."""
    text = written(value, form, schema)
    offset = refused_at(text)
    if offset is None:
        return None
    pointer = text.pointer_at(offset)
    steps: tuple[tuple[Kind, str, Form], ...] = (
        ("white_space", "", form := replace(form, separators=separators)),
        ("member_order", "properties", form := replace(form, schema_order=True, shuffled=False)),
        ("number_form", "type", form := replace(form, plain_numbers=True)),
    )
    for kind, keyword, form in steps:
        if refused_at(written(value, form, schema)) is None:
            return Cause(kind, keyword, pointer)
    offset = refused_at(written(value, form, schema))
    assert offset is not None
    pointer = written(value, form, schema).pointer_at(offset)
    if closed_out(schema, value):
        return Cause("closed_object", "additionalProperties", pointer)
    return Cause("keyword", _keyword(value, schema, pointer), pointer)


def closed_out(schema: dict[str, Any], value: Any) -> bool:
    """Whether a value is invalid only because objects that declare properties are closed."""
    try:
        return jsonschema_rs.is_valid(schema, value) and not jsonschema_rs.is_valid(
            close_objects(schema), value
        )
    except (ValueError, jsonschema_rs.ValidationError):
        return False


def _keyword(value: Any, schema: dict[str, Any], pointer: str) -> str:
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
    while True:
        try:
            present = {keyword for node in nodes_at(value, schema, steps) for keyword in node}
        except (KeyError, IndexError, TypeError, ValueError):
            present = set()
        named = next((keyword for keyword in KEYWORDS if keyword in present), None)
        if named or not steps:
            return named or ""
        steps.pop()
