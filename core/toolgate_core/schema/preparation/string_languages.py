"""The strings that a schema accepts, as a language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..formats import LENGTHS, PATTERNS
from ..keywords import ASSERTIONS
from ..regular.languages import (
    EVERYTHING,
    NOTHING,
    Intersection,
    Language,
    Long,
    Matching,
    Union,
    texts,
)

MAX_DEPTH = 8
"""Maximum nesting of schemas."""
_OTHER_TYPES = frozenset(
    {"additionalProperties", "contains", "dependentRequired", "dependentSchemas", "items"}
    | {"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf", "maxContains"}
    | {"maxItems", "maxProperties", "minContains", "minItems", "minProperties", "prefixItems"}
    | {"patternProperties", "properties", "propertyNames", "required", "uniqueItems"}
    | {"unevaluatedItems", "unevaluatedProperties"}
)
"""Keywords that say nothing about strings."""


def strings_of(
    schema: Any, target: Callable[[dict[str, Any]], Any], depth: int = MAX_DEPTH
) -> Language | None:
    """None if the schema has keywords of which the strings are not known. `target` gives the
    target of the reference of a schema."""
    if isinstance(schema, bool):
        return EVERYTHING if schema else NOTHING
    if not isinstance(schema, dict) or not depth:
        return None
    parts: list[Language] = [EVERYTHING]
    for keyword, value in schema.items():
        if keyword in _OTHER_TYPES or keyword not in ASSERTIONS:
            continue
        part = _strings_of(schema, keyword, value, target, depth - 1)
        if part is None:
            return None
        parts.append(part)
    parts = [part for part in dict.fromkeys(parts) if part != EVERYTHING]
    return parts[0] if len(parts) == 1 else Intersection(tuple(parts)) if parts else EVERYTHING


def _strings_of(
    schema: dict[str, Any],
    keyword: str,
    value: Any,
    target: Callable[[dict[str, Any]], Any],
    depth: int,
) -> Language | None:
    match keyword:
        case "type":
            return EVERYTHING if value == "string" or "string" in [*value] else NOTHING
        case "enum":
            return texts(each for each in value if isinstance(each, str))
        case "const":
            return texts([value] if isinstance(value, str) else [])
        case "pattern":
            return Matching(value)
        case "minLength":
            return Long(int(value))
        case "maxLength":
            return Long(0, int(value))
        case "format" if value in PATTERNS:
            matching = [Matching(pattern) for pattern in PATTERNS[value]]
            return Intersection((*matching, Long(0, LENGTHS.get(value))))
        case "$ref":
            return strings_of(target(schema), target, depth)
        case "not":
            inside = strings_of(value, target, depth)
            return None if inside is None else ~inside
        case "allOf" | "anyOf":
            options = [strings_of(each, target, depth) for each in value]
            known = [each for each in options if each is not None]
            if len(known) < len(options):
                return None
            return (Union if keyword == "anyOf" else Intersection)(tuple(known))
    return None
