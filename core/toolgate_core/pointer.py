"""JSON Pointers (RFC 6901). Errors use them to name a place in a schema."""

from __future__ import annotations

from typing import TypeAlias

Trail: TypeAlias = "tuple[Trail, str] | None"
"""A JSON Pointer as a linked list, the last step first. Places below one long name share that name,
which pointers as text would repeat."""


def escape(name: str) -> str:
    """The name of a member, escaped for a JSON Pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def joined(trail: Trail) -> str:
    """The JSON Pointer of a trail."""
    steps = []
    while trail is not None:
        trail, step = trail
        steps.append(step)
    return "".join(reversed(steps))
