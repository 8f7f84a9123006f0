"""Bodies of chat completions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..exchange import Body
from ..tools.tool import Tool
from .ask import Ask, ToolResult, Turn, User


def body(ask: Ask) -> Body:
    fields: Body = {"messages": [*_messages(ask)], "max_tokens": ask.max_tokens}
    if ask.temperature is not None:
        fields["temperature"] = ask.temperature
    if ask.tools:
        fields["tools"] = [tool(each, ask.strict) for each in ask.tools]
    if ask.choice:
        fields["tool_choice"] = named(ask.choice[1:]) if ask.choice[0] == "=" else ask.choice
    if ask.allowed:
        tools = [named(name) for name in ask.allowed]
        fields["tool_choice"] = {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "required", "tools": tools},
        }
    if ask.parallel is not None:
        fields["parallel_tool_calls"] = ask.parallel
    if ask.stop:
        fields["stop"] = [*ask.stop]
    if ask.format is not None:
        fields["response_format"] = response_format(ask.format)
    if ask.reasoning is not None:
        fields["reasoning_effort"] = ask.reasoning
    if ask.stream:
        fields |= {"stream": True, "stream_options": {"include_usage": True}}
    return {**fields, **ask.extra}


def tool(each: Tool, strict: bool | None) -> Body:
    function: Body = {
        "name": each.name,
        "description": each.description,
        "parameters": each.parameters,
    }
    return {"type": "function", "function": function | ({"strict": True} if strict else {})}


def named(name: str) -> Body:
    return {"type": "function", "function": {"name": name}}


def response_format(schema: Any, strict: bool = True) -> Body:
    return {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema, "strict": strict},
    }


def _messages(ask: Ask) -> Iterator[Body]:
    if ask.system:
        yield {"role": "system", "content": ask.system}
    for turn in ask.turns:
        yield message(turn)


def message(turn: Turn) -> Body:
    if isinstance(turn, User):
        return {"role": "user", "content": turn.text}
    if isinstance(turn, ToolResult):
        content: Any = [{"type": "text", "text": turn.text}] if turn.parts else turn.text
        return {"role": "tool", "tool_call_id": turn.id, "content": content}
    fields: Body = {"role": "assistant", "content": turn.text or None}
    if turn.reasoning:
        fields["reasoning_content"] = turn.reasoning
    if turn.calls:
        fields["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for call in turn.calls
        ]
    return fields
