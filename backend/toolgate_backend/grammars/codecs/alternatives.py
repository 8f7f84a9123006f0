"""The alternatives of a prepared schema, without references and `anyOf`.

In a prepared schema (toolgate_core.schema.preparation), `$ref` and `anyOf` stand alone, and `allOf`
has patterns only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema_rs

from toolgate_core.dialects.arguments.value_types import ALL, type_of
from toolgate_core.schema.walk import at_pointer, deep_copy, pointer_of_ref, ref_to, subschemas

from ...errors import GrammarRefused

MAX_ALTERNATIVES = 256
_WHOLE = "whole"


def without_root_references(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with references to itself replaced by references to a definition, so that
    parts of it can be used beside its definitions."""
    if not any(
        isinstance(each, dict) and each.get("$ref") == "#" for _, each in subschemas(schema)
    ):
        return schema
    copied: dict[str, Any] = deep_copy(schema)
    for _, each in [*subschemas(copied)]:
        if isinstance(each, dict) and each.get("$ref") == "#":
            each["$ref"] = ref_to(f"/$defs/{_WHOLE}")
    definitions = copied.pop("$defs", {})
    return {**copied, "$defs": {**definitions, _WHOLE: deep_copy(copied)}}


def alternatives(schema: Any, document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the alternatives of `schema`. References lead into `document`. Raise GrammarRefused if
    there are more than `MAX_ALTERNATIVES`."""
    found = []
    for each in _flatten(schema, document, ()):
        found.append(each)
        if len(found) > MAX_ALTERNATIVES:
            raise GrammarRefused(f"more than {MAX_ALTERNATIVES} alternatives", "")
    return found


def _flatten(
    schema: Any, document: dict[str, Any], path: tuple[int, ...]
) -> Iterator[dict[str, Any]]:
    if schema is True:
        schema = {}
    if not isinstance(schema, dict) or id(schema) in path:
        return
    path = (*path, id(schema))
    pointer = pointer_of_ref(schema.get("$ref"))
    if pointer is not None:
        yield from _flatten(at_pointer(document, pointer), document, path)
    elif "anyOf" in schema:
        for each in schema["anyOf"]:
            yield from _flatten(each, document, path)
    else:
        yield schema


def types(schema: dict[str, Any]) -> frozenset[str]:
    """Return the types of an alternative; `number` includes `integer`."""
    values = listed(schema)
    if values is not None:
        found = {type_of(value) for value in values}
        return frozenset(found | {"integer"} if "number" in found else found)
    if "type" not in schema:
        return ALL
    kinds = frozenset([schema["type"]] if isinstance(schema["type"], str) else schema["type"])
    return kinds | {"integer"} if "number" in kinds else kinds


def listed(schema: dict[str, Any]) -> list[Any] | None:
    """Return the values of an `enum` or `const` that satisfy the other keywords; None without
    these."""
    if "const" in schema:
        values = [schema["const"]]
    elif "enum" in schema:
        values = schema["enum"]
    else:
        return None
    rest = {keyword: value for keyword, value in schema.items() if keyword not in ("enum", "const")}
    return [value for value in values if _satisfies(value, rest)]


def restricted(schema: dict[str, Any], kinds: frozenset[str]) -> dict[str, Any] | None:
    """Return the alternative for values of these types; None if there are none."""
    values = listed(schema)
    if values is not None:
        kept = [value for value in values if type_of(value) in kinds]
        return {"enum": kept} if kept else None
    common = types(schema) & kinds
    if not common:
        return None
    if "number" in common:
        common -= {"integer"}
    return {**schema, "type": sorted(common)}


def _satisfies(value: Any, schema: dict[str, Any]) -> bool:
    return bool(jsonschema_rs.is_valid(schema, value, validate_formats=True))
