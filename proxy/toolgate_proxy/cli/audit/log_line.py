"""One line of a log: a response of any API, and the request, if the log has it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class SentCall:
    name: str
    arguments: str
    """JSON text. Of a custom tool, its input."""


@dataclass(frozen=True)
class LogLine:
    response_id: str
    receipt: Any
    calls: list[SentCall] = field(default_factory=list)
    tools: list[dict[str, Any]] | None = None
    """The functions of the request in the form of chat completions; None without a request."""


class NotALine(Exception):
    """The line has no response of a known API."""


def read_line(text: str) -> LogLine:
    """Raises NotALine."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise NotALine(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise NotALine("not a JSON object")
    response = value.get("response", value)
    request = value.get("request")
    if not isinstance(response, dict) or not isinstance(response.get("id"), str):
        raise NotALine("no response with an `id`")
    own = response.get("toolgate")
    receipt = own.get("receipt") if isinstance(own, dict) else None
    try:
        calls = [*_calls(response)]
        tools = None if request is None else [*_tools(request.get("tools") or ())]
    except (KeyError, TypeError, AttributeError) as error:
        raise NotALine(f"not a response of a known API: {error!r}") from error
    return LogLine(response["id"], receipt, calls, tools)


def _calls(response: dict[str, Any]) -> Iterator[SentCall]:
    """The calls of a chat completion, a response object or a message."""
    for choice in response.get("choices") or ():
        for call in choice["message"].get("tool_calls") or ():
            if call["type"] == "custom":
                yield SentCall(call["custom"]["name"], call["custom"]["input"])
            else:
                yield SentCall(call["function"]["name"], call["function"]["arguments"])
    for item in response.get("output") or ():
        prefix = f"{item['namespace']}." if item.get("namespace") else ""
        if item["type"] == "function_call":
            yield SentCall(f"{prefix}{item['name']}", item["arguments"])
        elif item["type"] == "custom_tool_call":
            yield SentCall(f"{prefix}{item['name']}", item["input"])
    if response.get("type") == "message":
        for block in response["content"]:
            if block["type"] == "tool_use":
                yield SentCall(block["name"], json.dumps(block["input"]))


def _tools(tools: Any) -> Iterator[dict[str, Any]]:
    """Functions only: custom tools and hosted tools have no schema."""
    for tool in tools:
        if "function" in tool:
            yield tool
        elif "input_schema" in tool or tool.get("type") == "function":
            schema = tool.get("input_schema", tool.get("parameters"))
            function = {"name": tool["name"], "parameters": schema}
            yield {"type": "function", "function": function}
