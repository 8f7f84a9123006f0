"""Server-sent events of a body."""

from __future__ import annotations

from functools import lru_cache

from ..exchange import Event


@lru_cache(maxsize=64)
def events(text: str) -> tuple[Event, ...]:
    """The events, without comments. An event without data is none."""
    found: list[Event] = []
    for block in text.replace("\r\n", "\n").replace("\r", "\n").split("\n\n"):
        name, data = "", list[str]()
        for line in block.split("\n"):
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                name = value
            elif field == "data":
                data.append(value)
        if data:
            found.append(Event(name, "\n".join(data)))
    return tuple(found)
