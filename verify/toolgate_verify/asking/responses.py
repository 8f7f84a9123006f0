"""Bodies of the Responses API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..exchange import Body
from ..tools.tool import Tool
from .ask import Ask, ToolResult, Turn, User


def body(ask: Ask) -> Body:
    items = [item for turn in ask.turns for item in _items(turn)]
    fields: Body = {"input": items, "max_output_tokens": ask.max_tokens, "store": False}
    if ask.system:
        fields["instructions"] = ask.system
    if ask.temperature is not None:
        fields["temperature"] = ask.temperature
    if ask.tools:
        fields["tools"] = [tool(each, ask.strict) for each in ask.tools]
    if ask.choice:
        fields["tool_choice"] = named(ask.choice[1:]) if ask.choice[0] == "=" else ask.choice
    if ask.allowed:
        tools = [named(name) for name in ask.allowed]
        fields["tool_choice"] = {"type": "allowed_tools", "mode": "required", "tools": tools}
    if ask.parallel is not None:
        fields["parallel_tool_calls"] = ask.parallel
    if ask.format is not None:
        fields["text"] = {"format": response_format(ask.format)}
    if ask.reasoning is not None:
        fields["reasoning"] = {"effort": ask.reasoning}
    if ask.stream:
        fields["stream"] = True
    return {**fields, **ask.extra}


def tool(each: Tool, strict: bool | None) -> Body:
    definition: Body = {
        "type": "function",
        "name": each.name,
        "description": each.description,
        "parameters": each.parameters,
    }
    return definition | ({} if strict is None else {"strict": strict})


def named(name: str) -> Body:
    return {"type": "function", "name": name}


def response_format(schema: Any, strict: bool = True) -> Body:
    return {"type": "json_schema", "name": "answer", "schema": schema, "strict": strict}


def _items(turn: Turn) -> Iterator[Body]:
    if isinstance(turn, User):
        yield {"type": "message", "role": "user", "content": turn.text}
        return
    if isinstance(turn, ToolResult):
        parts: Any = [{"type": "input_text", "text": turn.text}] if turn.parts else turn.text
        yield {"type": "function_call_output", "call_id": turn.id, "output": parts}
        return
    if turn.reasoning:
        content = [{"type": "reasoning_text", "text": turn.reasoning}]
        yield {"type": "reasoning", "id": "rs_1", "summary": [], "content": content}
    if turn.text:
        yield {"type": "message", "role": "assistant", "content": turn.text}
    for call in turn.calls:
        yield {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": json.dumps(call.arguments),
        }
