"""JSON Pointers (RFC 6901), by which errors name a place in a schema."""

from __future__ import annotations


def escape(name: str) -> str:
    """A member's name as one step of a pointer."""
    return name.replace("~", "~0").replace("/", "~1")
