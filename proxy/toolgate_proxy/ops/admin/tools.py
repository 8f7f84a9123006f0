"""Tools in JSON, in all forms that clients and servers write them.

- OpenAI: chat completions (`{"type": "function", "function": {…}}`), the Responses API (the fields
  beside `type`), and functions without a type
- Anthropic: `{"name", "description", "input_schema"}`
- MCP: `{"name", "description", "inputSchema"}`, as `tools/list` returns them

A document is a tool, a list of tools, a request with `tools`, the result of MCP's `tools/list`, or
a list of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

KINDS = ("function", "custom")
"""Types of OpenAI's tools that the client runs. `custom` is also a type of Anthropic's."""
SCHEMA_FIELDS = ("parameters", "input_schema", "inputSchema")
"""The field with the schema: OpenAI, Anthropic, MCP."""
COPIED = ("name", "description", "strict")


def as_chat_tool(entry: object) -> dict[str, Any] | None:
    """Return the tool as chat completions have it, with its errors, or None for an unknown form."""
    if not isinstance(entry, dict):
        return None
    kind = entry.get("type")
    schema = next((name for name in SCHEMA_FIELDS if name in entry), None)
    if kind in KINDS and (isinstance(entry.get(kind), dict) or "name" not in entry):
        return entry
    if kind == "custom" and schema is None:
        return {"type": "custom", "custom": _custom(entry)}
    if "name" not in entry or kind not in (None, *KINDS):
        return None
    if schema is None and not entry.keys() <= {"type", *COPIED}:
        return None
    function = {name: entry[name] for name in COPIED if name in entry}
    if schema is not None:
        function["parameters"] = entry[schema]
    return {"type": "function", "function": function}


def is_hosted(entry: object) -> bool:
    """Return whether it is a tool of the API's provider, such as a web search. It has no schema."""
    if not isinstance(entry, dict) or any(name in entry for name in SCHEMA_FIELDS):
        return False
    kind = entry.get("type")
    return isinstance(kind, str) and kind not in (*KINDS, "namespace", "object")


def _custom(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the custom tool of the Responses API, whose format has the grammar beside its type."""
    custom = {name: entry[name] for name in ("name", "description", "format") if name in entry}
    form = custom.get("format")
    if isinstance(form, dict) and form.get("type") == "grammar" and "grammar" not in form:
        grammar = {name: form[name] for name in ("syntax", "definition") if name in form}
        custom["format"] = {"type": "grammar", "grammar": grammar}
    return custom


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
    """Read the tools of a JSON document. Raise UnknownForm."""
    tools = Tools()
    for place, entry in _entries(document, ""):
        tool = as_chat_tool(entry)
        if tool is not None:
            tools.tools.append(tool)
        elif is_hosted(entry):
            tools.hosted.append((place, entry["type"]))
        else:
            raise UnknownForm(place, _problem(entry))
    return tools


def _entries(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yield the tools in a JSON value, with their JSON Pointers."""
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from _entries(item, f"{place}/{at}")
        return
    if isinstance(value, dict):
        if isinstance(inner := value.get("tools"), list):
            space = value.get("name") if value.get("type") == "namespace" else None
            for where, entry in _entries(inner, f"{place}/tools"):
                yield where, _in_namespace(entry, space)
            return
        if isinstance(result := value.get("result"), dict) and "jsonrpc" in value:
            yield from _entries(result, f"{place}/result")
            return
    yield place, value


def _in_namespace(entry: Any, space: object) -> Any:
    """Return a tool of a namespace of the Responses API, by the name that the model sees."""
    if not isinstance(space, str) or not isinstance(entry, dict) or "name" not in entry:
        return entry
    return entry | {"name": f"{space}.{entry['name']}"}


def _problem(entry: object) -> str:
    if not isinstance(entry, dict):
        names = {str: "string", bool: "boolean", int: "number", float: "number", type(None): "null"}
        return f"this is a {names.get(type(entry), type(entry).__name__)}, not a tool."
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
