"""The tools of a response, as it repeats those of the request."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson

from ...shared_json import Part, SharedText, WrittenList
from ...shared_tools import DEFERRED
from ..shared.web_search import NAME as WEB_SEARCH
from .builtin_tools.table import BUILTIN_TOOLS, BY_TYPE

FIELDS: dict[str, tuple[str, ...]] = {
    "function": ("type", "name", "description", "parameters", "strict"),
    "custom": ("type", "name", "description", "format"),
    "namespace": ("type", "name", "description", "tools"),
    **{tool.type: ("type", *tool.fields) for tool in BUILTIN_TOOLS},
}
"""By type of tool: its fields."""
SEARCH = "tool_search"
"""Type of the tool with which a client searches for deferred tools, and the name of the function
that the model sees."""
DEFAULT_NAMESPACE = "functions"
"""The namespace in which Codex puts tools without one."""


def full_name(namespace: str, name: str) -> str:
    """The name of a tool of a namespace that the model sees."""
    return name if namespace == DEFAULT_NAMESPACE else f"{namespace}.{name}"


@dataclass(frozen=True)
class SharedRun:
    """Deferred tools that follow each other in an array that requests share."""

    tools: Sequence[dict[str, Any]]

    @cached_property
    def json(self) -> SharedText:
        """The tools with commas between them."""
        return SharedText(orjson.dumps(self.tools)[1:-1])


Shown = dict[str, Any] | SharedRun
"""A tool as the response repeats it, or several."""


def found(shown: Iterable[Shown], names: Container[str]) -> list[dict[str, Any]]:
    """Return those of the tools of a response that the model knows by `names`."""
    kept = []
    for entry in _single(shown):
        if entry["type"] == "namespace":
            namespace = entry["name"]
            inner = [each for each in entry["tools"] if full_name(namespace, each["name"]) in names]
            kept += [{**entry, "tools": inner}] if inner else []
        elif entry.get("name") in names:
            kept.append(entry)
    return kept


def offered(shown: Iterable[Shown], names: Container[str]) -> list[dict[str, Any]]:
    """The tools of a response, without invalid ones that the model is not offered. Deferred ones
    stay: a search can find them."""
    kept: list[Shown] = []
    for entry in shown:
        if isinstance(entry, SharedRun) or entry["type"] == "mcp":
            kept.append(entry)
        elif entry["type"] == "namespace":
            namespace = entry["name"]
            inner = [
                tool
                for tool in entry["tools"]
                if DEFERRED in tool or full_name(namespace, tool["name"]) in names
            ]
            kept += [{**entry, "tools": inner}] if inner else []
        elif DEFERRED in entry or _name(entry) in names:
            kept.append(entry)
    tools = [*_single(kept)]
    has_runs = any(isinstance(entry, SharedRun) for entry in kept)
    return WrittenList(tools, _written(kept)) if has_runs else tools


def is_deferred(shown: Mapping[str, Any]) -> bool:
    """Return whether a tool, or all tools of a namespace, are deferred."""
    inner = shown.get("tools")
    return all(map(is_deferred, inner)) if inner else DEFERRED in shown


def _written(shown: Iterable[Shown]) -> list[Part]:
    """Return the JSON of tools in parts."""
    parts: list[Part] = []
    for entry in shown:
        parts.append(b"," if parts else b"[")
        parts.append(entry.json if isinstance(entry, SharedRun) else orjson.dumps(entry))
    return [*parts, b"]"]


def _single(shown: Iterable[Shown]) -> Iterator[dict[str, Any]]:
    for entry in shown:
        yield from entry.tools if isinstance(entry, SharedRun) else (entry,)


def _name(shown: Mapping[str, Any]) -> str:
    """The name of a tool that the model sees."""
    kind: str = shown["type"]
    return str(shown.get("name") or (kind if kind in BY_TYPE or kind == SEARCH else WEB_SEARCH))


def shown_tool(kind: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a function, a custom tool or a built-in tool as the response repeats it."""
    shown = {name: entry.get(name) for name in FIELDS[kind]}
    if entry.get(DEFERRED):
        shown[DEFERRED] = True
    if kind == "custom" and shown["format"] is None:
        shown["format"] = {"type": "text"}
    return shown
