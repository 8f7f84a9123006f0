"""Arrays of tools that requests have in common: clients send the same tools with each request."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from toolgate_core.errors import InvalidRequest

DEFERRED = "defer_loading"
FUNCTIONS = (None, "function", "custom")
"""Types of tools that clients define, of which a deferred one needs no look before it is found."""

Value = TypeVar("Value")


class SharedTools(list[Any]):
    """`tools` of a body. It is in memory once for all requests that have it, so nobody changes it.
    What was read of it is kept with it."""

    def __init__(self, tools: Sequence[Any]) -> None:
        super().__init__(tools)
        self.deferred: list[tuple[int, dict[str, Any]]] = []
        """Functions and custom tools with `defer_loading`, with their places."""
        self.others: list[tuple[int, Any]] = []
        for at, tool in enumerate(tools):
            (self.deferred if _is_deferred(tool) else self.others).append((at, tool))
        self._kept: dict[Hashable, Any] = {}

    def kept(self, key: Hashable, read: Callable[[SharedTools], Value]) -> Value:
        """Return what `read` returned for this key before."""
        if key not in self._kept:
            self._kept[key] = read(self)
        value: Value = self._kept[key]
        return value


def not_deferred(tools: Sequence[Any]) -> Iterable[tuple[int, Any]]:
    """Return tools with their places, without deferred ones if those are known. Others that are
    deferred may remain."""
    return tools.others if isinstance(tools, SharedTools) else enumerate(tools)


def as_own(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters for code that may change them. Raise InvalidRequest."""
    try:
        return {name: _copied(value) for name, value in values.items()}
    except RecursionError:
        raise InvalidRequest("The body is nested too deeply. Send flatter values.") from None


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(each) for name, each in value.items()}
    return [*map(_copied, value)] if isinstance(value, list) else value


def _is_deferred(tool: object) -> bool:
    return isinstance(tool, dict) and tool.get(DEFERRED) is True and tool.get("type") in FUNCTIONS
