"""Regular expressions of clients, matched by an engine whose steps are limited."""

from __future__ import annotations

from functools import lru_cache

import jsonschema_rs


@lru_cache(maxsize=4_096)
def matches(pattern: str, text: str) -> bool:
    """Whether a pattern of JSON Schema matches a text; true if it can't be parsed."""
    try:
        return jsonschema_rs.is_valid({"pattern": pattern}, text)
    except (ValueError, jsonschema_rs.ValidationError):
        return True
