"""JSON Pointers (RFC 6901), by which errors name a place in a schema."""

from __future__ import annotations

from typing import TypeAlias

Trail: TypeAlias = "tuple[Trail, str] | None"
"""A pointer as its last steps behind the rest of it: many places below one long name would hold it
once each as text."""


def escape(name: str) -> str:
    """A member's name as one step of a pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def joined(trail: Trail) -> str:
    """A trail as a pointer."""
    steps = []
    while trail is not None:
        trail, step = trail
        steps.append(step)
    return "".join(reversed(steps))
