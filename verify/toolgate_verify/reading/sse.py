"""Server-sent events of a body."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..exchange import Event
from .answer import Unreadable


@lru_cache(maxsize=64)
def events(text: str) -> tuple[Event, ...]:
    """Return the events, without comments. An event without data is none."""
    result: list[Event] = []
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
            result.append(Event(name, "\n".join(data)))
    return tuple(result)


def data_of(sent: tuple[Event, ...]) -> list[dict[str, Any]]:
    """Return the data of events, without `[DONE]` and pings. Raise Unreadable, also for an
    error."""
    data: list[dict[str, Any]] = []
    for event in sent:
        if event.text.strip() == "[DONE]":
            continue
        if not isinstance(event.data, dict):
            raise Unreadable(f"an event is not a JSON object: {event.text[:100]}")
        if event.data.get("type") == "error" or event.data.get("error"):
            raise Unreadable(f"the stream has an error: {event.text[:200]}")
        if event.data.get("type") != "ping":
            data.append(event.data)
    return data
