"""How errors name a place.

A place in a request is a path in OpenAI's notation, with the names of the request's API:
`messages[0].content`. A place in a schema, in the arguments of a call or in a JSON file is a JSON
Pointer (RFC 6901), because their names are any text: `/properties/due`. The root is the empty text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TypeAlias

Trail: TypeAlias = "tuple[Trail, str] | None"
"""A JSON Pointer as a linked list, the last step first. Places below one long name share that name,
which pointers as text would repeat."""


def escape(name: str) -> str:
    """Return the name of a member, escaped for a JSON Pointer."""
    if "~" in name or "/" in name:  # cheaper than two replacements, and rarely true
        return name.replace("~", "~0").replace("/", "~1")
    return name


def pointer_of(steps: Iterable[str | int]) -> str:
    """Return the JSON Pointer of names and indexes."""
    return "".join(f"/{escape(str(step))}" for step in steps)


def request_path(steps: Iterable[str | int]) -> str:
    """Return the path of names and indexes in a request."""
    path = ""
    for step in steps:
        path = f"{path}[{step}]" if isinstance(step, int) else member_path(path, step)
    return path


def member_path(path: str, name: str) -> str:
    """Return the path of a member of the object at `path`; "" is the request itself. Clients send
    any names; those that are no identifiers are quoted: `tools[0]["a b"]`."""
    if not path:
        return name
    return f"{path}.{name}" if name.isidentifier() else f"{path}[{json.dumps(name)}]"


def joined(trail: Trail) -> str:
    """Return the JSON Pointer of a trail."""
    steps = []
    while trail is not None:
        trail, step = trail
        steps.append(step)
    return "".join(reversed(steps))
