"""Why masks can't enforce a keyword, and what to write instead."""

from __future__ import annotations

from typing import Any

from ..keywords import CHECKED
from ..patterns import for_engines, objection_to
from ..walk import at_pointer
from .engine_form import is_exact

_COUNTING = (
    "Arrays can have many items of which only some satisfy it, and a grammar can't count them."
)
_ITEMS = "Describe all items with `items`, or declare a property for the required item."
_CONDITION = "The negation of its condition can't be written in keywords that grammars support."
_NUMBERS = "It has numbers beyond 2^53, which double precision can't represent exactly."
_MEMBERS = "Grammars count only declared properties, and only where they come in any order."
_UNEVALUATED = "It depends on other keywords that masks can't enforce."
_CASES = "Write each case as an alternative of `anyOf`, distinguished by a `const`."

ADVICE: dict[str, tuple[str, str]] = {
    "$dynamicRef": ("Its target depends on the dynamic scope.", "Use `$ref`."),
    "additionalProperties": (
        "It depends on a `patternProperties` that masks can't enforce.",
        "Follow the advice for `patternProperties`.",
    ),
    "const": (_NUMBERS, "Use a string."),
    "contains": (_COUNTING, _ITEMS),
    "dependentRequired": (
        "Its combination with the other keywords can't be written as alternatives.",
        "Write the alternatives as `anyOf`, each with its own `required`.",
    ),
    "dependentSchemas": (_CONDITION, "Write the alternatives as `anyOf`."),
    "else": (_CONDITION, _CASES),
    "enum": (_NUMBERS, "Use strings."),
    "format": ("The grammar engines do not support this format.", "Use `pattern`."),
    "if": (_CONDITION, _CASES),
    "maxContains": (_COUNTING, _ITEMS),
    "maxProperties": (
        _MEMBERS,
        "Declare the properties, or use an array with `maxItems`.",
    ),
    "minContains": (_COUNTING, _ITEMS),
    "minProperties": (
        _MEMBERS,
        "Use `required`, or an array with `minItems`.",
    ),
    "multipleOf": (
        "The grammar engines support it for non-negative numbers only.",
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
        "It has a word boundary, a back-reference, or look-around that is no short look-ahead at "
        "the beginning and no look-behind at the end.",
        "Write the pattern without it.",
    ),
    "patternProperties": (
        "Masks enforce it only where one pattern describes all names of an object.",
        "Declare the properties, or use one pattern and `additionalProperties: false` alone.",
    ),
    "propertyNames": (
        "Masks enforce a list of names, or one pattern where no properties are declared.",
        "List the names in `enum`, or declare the properties.",
    ),
    "then": (_CONDITION, _CASES),
    "unevaluatedItems": (_UNEVALUATED, "Use `items`."),
    "unevaluatedProperties": (
        _UNEVALUATED,
        "Declare all properties and use `additionalProperties: false`.",
    ),
    "uniqueItems": (
        "A grammar can't compare an item with earlier ones.",
        "Use one boolean property for each possible item.",
    ),
    "": (
        "The grammar engines do not support it in this place.",
        "Simplify the keywords next to it.",
    ),
}
"""By keyword. The entry "" applies to all other keywords."""

_TOO_LARGE = (
    "It is too large for the grammar engines, by itself or with the keywords beside it.",
    "Use smaller counts in it, or fewer keywords beside it.",
)
_RAW_LENGTH = (
    "The model's form of calls has raw text, of which masks count up to 100 characters.",
    "Use a bound of at most 100, or none.",
)
_RAW_NUMBER = (
    "In the model's form of calls, a number has no bounds where a string is allowed, too.",
    "Allow numbers or strings, not both.",
)


def advice_on(schema: Any, pointer: str, keyword: str) -> tuple[str, str]:
    """Why masks can't enforce one keyword of a schema, and what to write instead."""
    usual = ADVICE.get(keyword, ADVICE[""])
    try:
        value = at_pointer(schema, pointer)
    except (LookupError, ValueError):
        return usual
    match keyword:
        case "pattern":
            reasons = [r for each in for_engines(value) if (r := objection_to(each)) is not None]
            return (f"Masks can't enforce it: {reasons[0]}.", usual[1]) if reasons else _TOO_LARGE
        case "patternProperties":
            reasons = [reason for each in value if (reason := objection_to(each)) is not None]
            return (f"A pattern can't be enforced: {reasons[0]}.", usual[1]) if reasons else usual
        case "format" if value not in CHECKED:
            return _TOO_LARGE
        case "minLength" | "maxLength":
            return _RAW_LENGTH
        case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum":
            return _RAW_NUMBER if is_exact(value) else (_NUMBERS, "Use a string.")
    return usual
