"""Tool calls in the events of a segmenter."""

from __future__ import annotations

from toolgate_core.deltas import ArgumentsDelta, CallStart, Event


def calls_in(events: list[Event]) -> list[tuple[str, str]]:
    """Name and arguments of each call, in order."""
    found: list[tuple[str, str]] = []
    for event in events:
        if isinstance(event, CallStart):
            found.append((event.name, ""))
        elif isinstance(event, ArgumentsDelta):
            found[-1] = (found[-1][0], found[-1][1] + event.text)
    return found
