"""The scalars of JSON types, and the types that the schema of a tool allows for an argument.

Families without type attributes write a string as raw text and all other values as JSON. Reader and
grammar tell the two apart by these types. A text that is read as a scalar, although a string is
allowed in its place, can't be a string: readers decide it by `Scalars`, and grammars forbid it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from ...schema.types import ALL, TypeReader

INTEGER = r"-?(?:0|[1-9][0-9]*)"
FRACTION_OR_EXPONENT = r"(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)"
PATTERNS = {
    "null": "null",
    "boolean": "true|false",
    "integer": INTEGER,
    "number": INTEGER + FRACTION_OR_EXPONENT,
}
"""By JSON type: the regular expression of its scalars (RFC 8259 §3 and §6)."""
_DIGITS = re.compile(r"-?[0-9]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]*)?")


class Scalars:
    """The scalars of some JSON types."""

    def __init__(self, types: Collection[str]) -> None:
        self._words = [
            word
            for kind, words in (("null", ("null",)), ("boolean", ("true", "false")))
            if kind in types
            for word in words
        ]
        self._numbers = bool({"integer", "number"} & set(types))
        parts = [pattern for kind, pattern in PATTERNS.items() if kind in types]
        self._pattern = re.compile("|".join(f"(?:{part})" for part in parts)) if parts else None

    def matches(self, text: str) -> bool:
        return self._pattern is not None and self._pattern.fullmatch(text) is not None

    def may_begin_with(self, text: str) -> bool:
        """Whether a scalar may begin with this text. True may be wrong for numbers."""
        if any(word.startswith(text) for word in self._words):
            return True
        return self._numbers and _DIGITS.fullmatch(text) is not None


def argument_types(parameters: Mapping[str, Any], key: str) -> frozenset[str]:
    """The types that the argument `key` can have, as far as the schema tells; `ALL` if the schema
    does not tell anything, or forbids the argument."""
    return TypeReader(parameters).member(parameters, key) or ALL
