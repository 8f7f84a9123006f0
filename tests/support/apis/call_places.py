"""Calls in responses of any API, and the exchanges of two of them that an attacker could make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CallPlace:
    """Where a response has a call."""

    entries: list[Any]
    at: int
    nested: bool
    """Whether the name and the arguments are in an object below the entry."""

    def get(self, name: str) -> Any:
        fields, own = self._field(name)
        return fields[own]

    def set(self, name: str, value: Any) -> None:
        """`name`: `name`, `id` or `arguments`, in any API."""
        fields, own = self._field(name)
        fields[own] = value

    def _field(self, name: str) -> tuple[dict[str, Any], str]:
        entry = self.entries[self.at]
        if name == "id":
            return entry, "call_id" if "call_id" in entry else "id"
        fields = entry[entry["type"]] if self.nested else entry
        return fields, "input" if name == "arguments" and "input" in fields else name


def places_of(body: dict[str, Any]) -> Iterator[CallPlace]:
    for choice in body.get("choices", ()):
        calls = choice["message"].get("tool_calls", [])
        yield from (CallPlace(calls, at, nested=True) for at in range(len(calls)))
    for entries in (body.get("output", []), body.get("content", [])):
        for at, entry in enumerate(entries):
            if entry["type"] in ("function_call", "custom_tool_call", "tool_use"):
                yield CallPlace(entries, at, nested=False)


def _exchange_entries(first: CallPlace, second: CallPlace) -> None:
    one, other = first.entries[first.at], second.entries[second.at]
    first.entries[first.at], second.entries[second.at] = other, one


def _exchange(name: str) -> Callable[[CallPlace, CallPlace], None]:
    def exchange(first: CallPlace, second: CallPlace) -> None:
        one, other = first.get(name), second.get(name)
        first.set(name, other)
        second.set(name, one)

    return exchange


EXCHANGES = {
    "calls": _exchange_entries,
    **{name: _exchange(name) for name in ("arguments", "name", "id")},
}
