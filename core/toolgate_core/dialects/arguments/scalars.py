"""Texts that are read as JSON scalars although a string is allowed in their place.

`Scalars` decides it for readers. The grammar of the codec forbids strings that have such a text.
"""

from __future__ import annotations

import re
from collections.abc import Collection

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
