"""Reads the user's own tools: an array in OpenAI's or Anthropic's form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .tool import Tool


class NoTools(Exception):
    """The file has no tools that can be read."""


def read_tools(path: Path) -> list[Tool]:
    """Tools of chat completions, Responses or Messages, or bare functions. A file with a request
    body is read as well. Raises NoTools."""
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise NoTools(f"{path} can't be read: {error}") from error
    found = data.get("tools") if isinstance(data, dict) else data
    if not isinstance(found, list) or not found:
        raise NoTools(f"{path} has no array of tools")
    return tools_of(str(path), found)


def tools_of(place: str, entries: list[Any]) -> list[Tool]:
    """The tools of an array. Raises NoTools with the place."""
    return [_tool(place, number, each) for number, each in enumerate(entries)]


def _tool(place: str, number: int, entry: Any) -> Tool:
    entry = entry.get("function", entry) if isinstance(entry, dict) else {}
    schema = entry.get("parameters", entry.get("input_schema", {"type": "object"}))
    name = entry.get("name")
    if not isinstance(name, str) or not isinstance(schema, dict):
        raise NoTools(f"{place}: tool {number} has no name, or its schema is not an object")
    description = str(entry.get("description") or name)
    return Tool(
        name,
        description,
        schema,
        prompt=f"Call the tool {name}. {description}",
        feature=name,
        rule="The arguments satisfy the schema of the tool.",
        max_tokens=600,
    )
