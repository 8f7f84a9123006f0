"""Why masks leave a keyword open, and what to write instead."""

from __future__ import annotations

_COUNTING = "A grammar would have to remember every item that came."
_CONDITION = "Its negation can't be said in keywords that a grammar holds."

ADVICE: dict[str, tuple[str, str]] = {
    "$dynamicRef": ("What it leads to depends on the way there.", "Use $ref."),
    "additionalProperties": (
        "Which members are additional depends on a patternProperties that is left open.",
        "See there.",
    ),
    "const": ("Its numbers are too large to be told apart as doubles.", "Use a string."),
    "contains": (_COUNTING, "Ask for the item as a property of its own."),
    "dependentRequired": (
        "Together with what stands beside it it can't be said as alternatives.",
        "Write the alternatives as anyOf, each with its `required`.",
    ),
    "dependentSchemas": (_CONDITION, "Write the alternatives as anyOf."),
    "else": (_CONDITION, "Write both cases as anyOf, told apart by a `const`."),
    "enum": ("Its numbers are too large to be told apart as doubles.", "Use strings."),
    "format": ("No grammar knows the format.", "Use a `pattern`."),
    "if": (_CONDITION, "Write both cases as anyOf, told apart by a `const`."),
    "maxContains": (_COUNTING, "Leave it out."),
    "maxProperties": (
        "Members that may or may not come are not counted.",
        "Declare the members, or use an array with maxItems.",
    ),
    "minContains": (_COUNTING, "Leave it out."),
    "minProperties": (
        "Members that may or may not come are not counted beyond one.",
        "Use `required`, or an array with minItems.",
    ),
    "multipleOf": (
        "It is only held for numbers that can't be negative.",
        "Add `minimum: 0`, or use an integer in a smaller unit.",
    ),
    "not": (
        "What it excludes can't be said in keywords that a grammar holds.",
        "Say what is allowed: a type, an enum, a pattern.",
    ),
    "oneOf": (
        "The alternatives overlap, or can't be shown not to: they are masked as anyOf.",
        "Use anyOf, or give each alternative a required property with a `const` of its own.",
    ),
    "pattern": (
        "It looks ahead, looks back or refers back, which an automaton can't.",
        "Write it without look-around, word boundaries and back-references.",
    ),
    "patternProperties": (
        "The patterns overlap, or can't be held beside what stands there.",
        "Use patterns that exclude each other, or properties.",
    ),
    "propertyNames": (
        "It is only held where it is one pattern or a list of names.",
        "Use patternProperties with additionalProperties: false.",
    ),
    "then": (_CONDITION, "Write both cases as anyOf, told apart by a `const`."),
    "unevaluatedItems": ("What it applies to depends on keywords left open.", "Use `items`."),
    "unevaluatedProperties": (
        "What it applies to depends on keywords left open.",
        "Use additionalProperties: false beside all properties.",
    ),
    "uniqueItems": (
        _COUNTING,
        "Ask for one boolean property for each item that may come, or let repeats count once.",
    ),
    "": ("The grammar engines don't take it here.", "Simplify what stands beside it."),
}
"""By keyword; "" for any other."""
