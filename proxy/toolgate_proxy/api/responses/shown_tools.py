"""The tools of a response, as it repeats those of the request."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

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


def found(shown: Iterable[dict[str, Any]], names: Container[str]) -> list[dict[str, Any]]:
    """Return those of the tools of a response that the model knows by `names`."""
    kept = []
    for entry in shown:
        if entry["type"] == "namespace":
            namespace = entry["name"]
            inner = [each for each in entry["tools"] if full_name(namespace, each["name"]) in names]
            kept += [{**entry, "tools": inner}] if inner else []
        elif entry.get("name") in names:
            kept.append(entry)
    return kept


def offered(shown: Iterable[dict[str, Any]], names: Container[str]) -> list[dict[str, Any]]:
    """The tools of a response, without invalid ones that the model is not offered. Deferred ones
    stay: a search can find them."""
    kept = []
    for entry in shown:
        if entry["type"] == "mcp":
            kept.append(entry)
        elif entry["type"] == "namespace":
            namespace = entry["name"]
            inner = [
                tool
                for tool in entry["tools"]
                if "defer_loading" in tool or full_name(namespace, tool["name"]) in names
            ]
            kept += [{**entry, "tools": inner}] if inner else []
        elif "defer_loading" in entry or _name(entry) in names:
            kept.append(entry)
    return kept


def _name(shown: Mapping[str, Any]) -> str:
    """The name of a tool that the model sees."""
    kind: str = shown["type"]
    return str(shown.get("name") or (kind if kind in BY_TYPE or kind == SEARCH else WEB_SEARCH))


def shown_tool(kind: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a function, a custom tool or a built-in tool as the response repeats it."""
    shown = {name: entry.get(name) for name in FIELDS[kind]}
    if entry.get("defer_loading"):
        shown["defer_loading"] = True
    if kind == "custom" and shown["format"] is None:
        shown["format"] = {"type": "text"}
    return shown
