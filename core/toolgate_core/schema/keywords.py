"""JSON Schema's keywords: the kind of their values, and the draft that introduced them."""

from __future__ import annotations

TYPE_NAMES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
"""The values of `type`."""

ANNOTATIONS = frozenset(
    {
        *("$comment", "$schema", "default", "deprecated", "description", "example"),
        *("examples", "readOnly", "title", "writeOnly"),
    }
)
"""Keywords that assert nothing (JSON Schema 2020-12, validation §9; OpenAPI 3's `example`)."""

SCHEMA_KEYWORDS = frozenset(
    {
        *("additionalItems", "additionalProperties", "contains", "contentSchema", "else"),
        *("if", "items", "not", "propertyNames", "then", "unevaluatedItems"),
        "unevaluatedProperties",
    }
)
"""Keywords whose value is a schema (or, for draft 7's `items`, a list of them)."""

SCHEMA_LIST_KEYWORDS = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
SCHEMA_MAP_KEYWORDS = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
DEFINITIONS = ("$defs", "definitions")

ASSERTIONS = frozenset(
    {
        *("$dynamicRef", "$ref", "additionalProperties", "allOf", "anyOf", "const"),
        *("contains", "dependentRequired", "dependentSchemas", "else", "enum"),
        *("exclusiveMaximum", "exclusiveMinimum", "format", "if", "items", "maxContains"),
        *("maxItems", "maxLength", "maxProperties", "maximum", "minContains", "minItems"),
        *("minLength", "minProperties", "minimum", "multipleOf", "not", "oneOf", "pattern"),
        *("patternProperties", "prefixItems", "properties", "propertyNames", "required"),
        *("then", "type", "unevaluatedItems", "unevaluatedProperties", "uniqueItems"),
    }
)
"""Every keyword of 2020-12 that can make an instance invalid. All others are ignored."""

SINCE = {
    "const": 6,
    "contains": 6,
    "propertyNames": 6,
    "if": 7,
    "then": 7,
    "else": 7,
    "dependentRequired": 2019,
    "dependentSchemas": 2019,
    "maxContains": 2019,
    "minContains": 2019,
    "unevaluatedItems": 2019,
    "unevaluatedProperties": 2019,
    "$dynamicRef": 2020,
    "prefixItems": 2020,
}
"""The draft that introduced a keyword. It is ignored in schemas of older drafts."""
