"""A short text that a regular expression matches, for the search for short completions.

The result is a guess that the grammar checks: assertions are passed over, and the dialect is that
of Python's `re`.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

MAX_LENGTH = 512
MAX_PATTERN = 10_000
"""Maximum length of a pattern. Each part of a class takes some microseconds."""
_SIMPLE = "a0A-_ .:/@,"
"""Characters that are tried for a class, in this order."""


@lru_cache(1024)
def shortest_match(pattern: str) -> str | None:
    """None if none was found. A pattern that is not anchored matches a part of the text, and so
    does the result."""
    if len(pattern) > MAX_PATTERN:
        return None
    parser: Any = importlib.import_module("re._parser")
    try:
        found = _text(parser.parse(pattern), {})
    except (re.error, ValueError, OverflowError, RecursionError):
        return None
    return found if found is not None and len(found) <= MAX_LENGTH else None


def _text(parts: Sequence[Any], groups: dict[int, str]) -> str | None:
    texts = [_part(str(kind), value, groups) for kind, value in parts]
    known = [text for text in texts if text is not None]
    return "".join(known) if len(known) == len(texts) else None


def _part(kind: str, value: Any, groups: dict[int, str]) -> str | None:
    match kind:
        case "LITERAL":
            return chr(value)
        case "AT" | "ASSERT" | "ASSERT_NOT":
            return ""
        case "ANY" | "NOT_LITERAL":
            return "a" if value != ord("a") else "b"
        case "IN":
            return _of_class(value)
        case "BRANCH":
            ways = [each for each in (_text(way, groups) for way in value[1]) if each is not None]
            return min(ways, key=len, default=None)
        case "SUBPATTERN":
            text = _text(value[3], groups)
            if text is not None and value[0] is not None:
                groups[value[0]] = text
            return text
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            if not value[0] or value[0] > MAX_LENGTH:
                return "" if not value[0] else None
            text = _text(value[2], groups)
            # Repetitions inside each other multiply the length.
            if text is None or len(text) * value[0] > MAX_LENGTH:
                return None
            return text * int(value[0])
        case "ATOMIC_GROUP":
            return _text(value, groups)
        case "GROUPREF":
            return groups.get(int(value))
    return None


def _of_class(parts: Sequence[Any]) -> str | None:
    """A character of a class."""
    char: str
    for char in (*_SIMPLE, *(chr(code) for code in range(0x21, 0x7F))):
        if _in_class(parts, char):
            return char
    first = next((value for kind, value in parts if str(kind) in ("LITERAL", "RANGE")), None)
    if first is None:
        return None
    return chr(first if isinstance(first, int) else int(first[0]))


def _in_class(parts: Sequence[Any], char: str) -> bool:
    negated = bool(parts) and str(parts[0][0]) == "NEGATE"
    found = any(_matches(str(kind), value, char) for kind, value in parts)
    return found is not negated


def _matches(kind: str, value: Any, char: str) -> bool:
    if kind == "LITERAL":
        return ord(char) == int(value)
    if kind == "RANGE":
        return bool(value[0] <= ord(char) <= value[1])
    if kind == "CATEGORY":
        name = str(value).removeprefix("CATEGORY_")
        word = char.isalnum() or char == "_"
        is_a = {"DIGIT": char.isdigit(), "SPACE": char.isspace(), "WORD": word}
        return not is_a[name[4:]] if name.startswith("NOT_") else is_a.get(name, False)
    return False
