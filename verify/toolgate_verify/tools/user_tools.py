"""Reads what the user gives: their own tools, as an array in OpenAI's or Anthropic's form, and
recorded requests, one chat completion body per line, as vendors' test sets have them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .tool import Tool

LABELS = ("model", "check_type", "expected_tool_call", "id")
"""Members of a line that are not sent. `model` is that of the run."""


class NoTools(Exception):
    """The file has no tools that can be read."""


def read_tools(path: Path) -> list[Tool]:
    """Tools of chat completions, Responses or Messages, or bare functions. A file with a request
    body is read as well. Raise NoTools."""
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise NoTools(f"{path} cannot be read: {error}") from error
    found = data.get("tools") if isinstance(data, dict) else data
    if not isinstance(found, list) or not found:
        raise NoTools(f"{path} has no array of tools")
    return tools_of(str(path), found)


def tools_of(place: str, entries: list[Any]) -> list[Tool]:
    """Return the tools of an array. Raise NoTools with the place."""
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


@dataclass(frozen=True)
class Sample:
    number: int
    body: dict[str, Any]
    tools: tuple[Tool, ...]
    expected: bool | None
    """Whether a call is expected, where the line has a label."""


def read_samples(path: Path) -> list[Sample]:
    """Raise NoTools if a line is no request."""
    try:
        lines = path.read_text().split("\n")  # JSON texts may have other line separators
    except (OSError, ValueError) as error:
        raise NoTools(f"{path} cannot be read: {error}") from error
    found = [line for line in lines if line.strip()]
    if not found:
        raise NoTools(f"{path} has no requests")
    return [_sample(path, number, line) for number, line in enumerate(found, 1)]


def _sample(path: Path, number: int, line: str) -> Sample:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise NoTools(f"{path}, line {number}: {error}") from error
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        raise NoTools(f"{path}, line {number}: no request with `messages`")
    expected = value.get("expected_tool_call")
    tools = tuple(tools_of(f"{path}, line {number}", value.get("tools") or []))
    body = {name: each for name, each in value.items() if name not in LABELS}
    return Sample(number, body, tools, expected if isinstance(expected, bool) else None)
