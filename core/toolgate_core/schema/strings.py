"""Patterns of clients: what they match, and which ones masks can enforce."""

from __future__ import annotations

from functools import lru_cache

import jsonschema_rs

from .regular.reading import parse
from .regular.syntax import Both, Other, Unsupported, every_part
from .regular.whole import whole


@lru_cache(maxsize=4_096)
def matches(pattern: str, text: str) -> bool:
    """Whether a pattern of JSON Schema matches a text; true if it can't be parsed. The steps of the
    engine are limited."""
    try:
        return jsonschema_rs.is_valid({"pattern": pattern}, text)
    except (ValueError, jsonschema_rs.ValidationError):
        return True


def is_maskable(pattern: str) -> bool:
    """Whether masks can enforce this pattern as it is. An engine may still find it too large."""
    return objection_to(pattern) is None


@lru_cache(maxsize=4_096)
def objection_to(pattern: str) -> str | None:
    """Why masks can't enforce a pattern as it is; None if they can."""
    try:
        part = whole(parse(pattern))
    except Unsupported as error:
        return str(error)
    except RecursionError:
        return "it is nested too deeply"
    looks = any(isinstance(each, Both | Other) for each in every_part(part))
    return "its look-ahead has too many states" if looks else None
