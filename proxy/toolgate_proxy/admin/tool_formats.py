"""Tools in the forms that APIs and servers write them, as `tools` of chat completions.

- OpenAI: chat completions (`{"type": "function", "function": {…}}`), the Responses API (the fields
  beside `type`), and functions without a type (`functions` of the older API)
- Anthropic: `{"name", "description", "input_schema"}`
- MCP: `{"name", "description", "inputSchema"}`, as `tools/list` returns them
"""

from __future__ import annotations

from typing import Any

KINDS = ("function", "custom")
"""Types of OpenAI's tools that the client runs. `custom` is also a type of Anthropic's."""
SCHEMA_FIELDS = ("parameters", "input_schema", "inputSchema")
"""The field with the schema: OpenAI, Anthropic, MCP."""
COPIED = ("name", "description", "strict")


def as_chat_tool(entry: object) -> dict[str, Any] | None:
    """The tool in the form of chat completions, with its errors, or None if the form is unknown."""
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
    """Whether it is a tool of the API's provider, such as a web search. It has no schema."""
    if not isinstance(entry, dict) or any(name in entry for name in SCHEMA_FIELDS):
        return False
    kind = entry.get("type")
    return isinstance(kind, str) and kind not in (*KINDS, "namespace", "object")


def _custom(entry: dict[str, Any]) -> dict[str, Any]:
    """The custom tool of the Responses API, whose grammar is beside the type of its format."""
    custom = {name: entry[name] for name in ("name", "description", "format") if name in entry}
    given = custom.get("format")
    if isinstance(given, dict) and given.get("type") == "grammar" and "grammar" not in given:
        grammar = {name: given[name] for name in ("syntax", "definition") if name in given}
        custom["format"] = {"type": "grammar", "grammar": grammar}
    return custom
