"""For each keyword: why masks can't enforce it, and what to write instead."""

from __future__ import annotations

_COUNTING = (
    "Arrays can have many items of which only some satisfy it, and a grammar can't count them."
)
_CONDITION = "The negation of its condition can't be written in keywords that grammars support."
_NUMBERS = "It has numbers beyond 2^53, which double precision can't represent exactly."
_UNEVALUATED = "It depends on other keywords that masks can't enforce."
_CASES = "Write each case as an alternative of `anyOf`, distinguished by a `const`."

ADVICE: dict[str, tuple[str, str]] = {
    "$dynamicRef": ("Its target depends on the dynamic scope.", "Use `$ref`."),
    "additionalProperties": (
        "It depends on a `patternProperties` that masks can't enforce.",
        "Follow the advice for `patternProperties`.",
    ),
    "const": (_NUMBERS, "Use a string."),
    "contains": (_COUNTING, "Add a small `maxItems`, or declare a property for the required item."),
    "dependentRequired": (
        "Its combination with the other keywords can't be written as alternatives.",
        "Write the alternatives as `anyOf`, each with its own `required`.",
    ),
    "dependentSchemas": (_CONDITION, "Write the alternatives as `anyOf`."),
    "else": (_CONDITION, _CASES),
    "enum": (_NUMBERS, "Use strings."),
    "format": ("The grammar engines do not support this format.", "Use `pattern`."),
    "if": (_CONDITION, _CASES),
    "maxContains": (_COUNTING, "Add a small `maxItems`."),
    "maxProperties": (
        "A grammar can't count many optional properties.",
        "Declare the properties, or use an array with `maxItems`.",
    ),
    "minContains": (_COUNTING, "Add a small `maxItems`."),
    "minProperties": (
        "A grammar can't count many optional properties, or require several undeclared ones.",
        "Use `required`, or an array with `minItems`.",
    ),
    "multipleOf": (
        "The grammar engines support it for non-negative numbers only, or between two near bounds.",
        "Add `minimum: 0`, or use an integer in a smaller unit.",
    ),
    "not": (
        "Its negation can't be written in keywords that grammars support.",
        "Describe the allowed values with `type`, `enum` or `pattern`.",
    ),
    "oneOf": (
        "The alternatives overlap, or can't be proven disjoint. Masks enforce it as `anyOf`.",
        "Use `anyOf`, or give each alternative a required property with a different `const`.",
    ),
    "pattern": (
        "It uses word boundaries, back-references or look-behind, which grammars do not support.",
        "Write the pattern without them.",
    ),
    "patternProperties": (
        "A pattern is not supported, or can't be combined with the other keywords.",
        "Use patterns that exclude each other, or declare the properties.",
    ),
    "propertyNames": (
        "Its names can't be written as one pattern.",
        "Use `patternProperties` with `additionalProperties: false`.",
    ),
    "then": (_CONDITION, _CASES),
    "unevaluatedItems": (_UNEVALUATED, "Use `items`."),
    "unevaluatedProperties": (
        _UNEVALUATED,
        "Declare all properties and use `additionalProperties: false`.",
    ),
    "uniqueItems": (
        "Its items are not few listed values, and a grammar can't compare items with earlier ones.",
        "List at most four values in `enum`, or use one boolean property for each possible item.",
    ),
    "": (
        "The grammar engines do not support it in this place.",
        "Simplify the keywords next to it.",
    ),
}
"""By keyword. The entry "" applies to all other keywords."""
