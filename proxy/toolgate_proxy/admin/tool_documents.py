"""Tools in JSON documents, in all forms that clients and servers write them.

A document is a tool, a list of tools, a request with `tools`, the result of MCP's `tools/list`, or
a list of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .tool_formats import as_chat_tool, is_hosted

MAX_FIELDS = 6
"""Fields of an object in an unknown form that the error names."""
KNOWN = (
    'a function ({"type": "function", "function": {…}} or {"name", "parameters"}), an MCP tool '
    '({"name", "inputSchema"}) or an Anthropic tool ({"name", "input_schema"})'
)


class UnknownForm(Exception):
    """A part of the document is no tool. `place` is its JSON Pointer."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{problem} Expected {KNOWN}.")
        self.place = place


@dataclass
class Tools:
    tools: list[dict[str, Any]] = field(default_factory=list)
    """In the form of chat completions."""
    hosted: list[tuple[str, str]] = field(default_factory=list)
    """The JSON Pointers and the types of hosted tools, which have no schema."""


def read_document(document: object) -> Tools:
    """Raises UnknownForm."""
    found = Tools()
    for place, entry in _entries(document, ""):
        tool = as_chat_tool(entry)
        if tool is not None:
            found.tools.append(tool)
        elif is_hosted(entry):
            found.hosted.append((place, entry["type"]))
        else:
            raise UnknownForm(place, _problem(entry))
    return found


def _entries(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """The tools in a JSON value, with their JSON Pointers."""
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from _entries(item, f"{place}/{at}")
        return
    if isinstance(value, dict):
        for name in ("tools", "functions"):
            if isinstance(inner := value.get(name), list):
                space = value.get("name") if value.get("type") == "namespace" else None
                for where, entry in _entries(inner, f"{place}/{name}"):
                    yield where, _in_namespace(entry, space)
                return
        if isinstance(result := value.get("result"), dict) and "jsonrpc" in value:
            yield from _entries(result, f"{place}/result")
            return
    yield place, value


def _in_namespace(entry: Any, space: object) -> Any:
    """A tool of a namespace of the Responses API, by the name that the model sees."""
    if not isinstance(space, str) or not isinstance(entry, dict) or "name" not in entry:
        return entry
    return entry | {"name": f"{space}.{entry['name']}"}


def _problem(entry: object) -> str:
    if not isinstance(entry, dict):
        return f"this is a {_json_type(entry)}, not a tool."
    if "mcpServers" in entry:
        return (
            "this is a configuration of MCP servers, not a list of tools. Save the result of "
            "`tools/list` of the server."
        )
    if "functionDeclarations" in entry or "function_declarations" in entry:
        return "tools in Gemini's form are not supported."
    if "$schema" in entry or (entry.get("type") == "object" and "properties" in entry):
        return 'this is a JSON Schema without a tool: write {"name": …, "input_schema": …}.'
    fields = ", ".join(list(map(str, entry))[:MAX_FIELDS]) or "none"
    return f"unknown form of a tool (its fields: {fields})."


def _json_type(value: object) -> str:
    names = {str: "string", bool: "boolean", int: "number", float: "number", type(None): "null"}
    return names.get(type(value), type(value).__name__)
