"""Tools in JSON files, in all forms that clients and servers write them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...admin.tool_formats import as_chat_tool, is_hosted
from .admin_client import AdminRequestFailed

STDIN = Path("-")
MAX_FIELDS = 6
"""Fields of an object in an unknown form that the error names."""
KNOWN = (
    'a function ({"type": "function", "function": {…}} or {"name", "parameters"}), an MCP tool '
    '({"name", "inputSchema"}) or an Anthropic tool ({"name", "input_schema"})'
)


@dataclass
class ToolFiles:
    tools: list[dict[str, Any]] = field(default_factory=list)
    """In the form of chat completions."""
    skipped: list[str] = field(default_factory=list)
    """Hosted tools, one sentence each."""


def read_tools(paths: Iterable[Path]) -> ToolFiles:
    """The tools in JSON files. A file has a tool, a list of tools, a request with `tools`, the
    result of MCP's `tools/list`, a list of these, or one of them on each line. Raises
    AdminRequestFailed, which names the file and the place of an unknown form."""
    found = ToolFiles()
    for path in paths:
        name = "standard input" if path == STDIN else str(path)
        for place, entry in _entries(_parsed(path, name), ""):
            where = f"{name}, {place}" if place else name
            tool = as_chat_tool(entry)
            if tool is not None:
                found.tools.append(tool)
            elif is_hosted(entry):
                found.skipped.append(
                    f"{where}: skipped the hosted tool {entry['type']!r}, which has no schema."
                )
            else:
                raise AdminRequestFailed(f"{where}: {_problem(entry)} Expected {KNOWN}.")
    if not found.tools:
        raise AdminRequestFailed("The files contain no tools.")
    return found


def _parsed(path: Path, name: str) -> Any:
    try:
        text = sys.stdin.read() if path == STDIN else path.read_text(encoding="utf-8-sig")
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            lines = [line for line in text.splitlines() if line.strip()]
            if error.msg != "Extra data" or len(lines) < 2:
                raise
            return [json.loads(line) for line in lines]
    except OSError as error:
        raise AdminRequestFailed(f"{name} can't be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise AdminRequestFailed(f"{name} is not valid JSON: {error}.") from error


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
