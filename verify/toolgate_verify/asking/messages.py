"""Bodies of the Messages API."""

from __future__ import annotations

from typing import Any

from ..exchange import Body
from ..tools.tool import Tool
from .ask import Ask, ToolResult, Turn, User

THINKING_TOKENS = 1024
"""The smallest budget that the specification allows."""


def body(ask: Ask) -> Body:
    fields: Body = {"messages": _messages(ask.turns), "max_tokens": ask.max_tokens}
    if ask.system:
        fields["system"] = ask.system
    if ask.temperature is not None:
        fields["temperature"] = ask.temperature
    if ask.tools:
        eager = {"eager_input_streaming": True} if ask.eager else {}
        fields["tools"] = [tool(each, ask.strict) | eager for each in ask.tools]
    choice = _choice(ask)
    if choice:
        fields["tool_choice"] = choice
    if ask.stop:
        fields["stop_sequences"] = [*ask.stop]
    if ask.format is not None:
        fields["output_config"] = {"format": {"type": "json_schema", "schema": ask.format}}
    fields |= _thinking(ask)
    if ask.stream:
        fields["stream"] = True
    return {**fields, **ask.extra}


def _thinking(ask: Ask) -> Body:
    if ask.reasoning is None:
        return {}
    if ask.reasoning == "none":
        return {"thinking": {"type": "disabled"}}
    if ask.adaptive:
        return {"thinking": {"type": "adaptive"}}
    return {
        "max_tokens": ask.max_tokens + THINKING_TOKENS,
        "temperature": 1,
        "thinking": {"type": "enabled", "budget_tokens": THINKING_TOKENS},
    }


def tool(each: Tool, strict: bool | None) -> Body:
    definition: Body = {
        "name": each.name,
        "description": each.description,
        "input_schema": each.parameters,
    }
    return definition | ({"strict": True} if strict else {})


def _choice(ask: Ask) -> Body:
    kinds = {"required": "any", "auto": "auto", "none": "none"}
    chosen: Body = {}
    if ask.choice:
        named = ask.choice[0] == "="
        chosen = {"type": "tool", "name": ask.choice[1:]} if named else {"type": kinds[ask.choice]}
    if ask.parallel is not None and ask.choice != "none":
        chosen = {"type": "auto", **chosen, "disable_parallel_tool_use": not ask.parallel}
    return chosen


def _messages(turns: tuple[Turn, ...]) -> list[Body]:
    """Results are blocks of the user's next message."""
    messages: list[Body] = []
    for turn in turns:
        role = "assistant" if not isinstance(turn, User | ToolResult) else "user"
        blocks = _blocks(turn)
        if messages and messages[-1]["role"] == role and isinstance(messages[-1]["content"], list):
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": blocks})
    return messages


def _blocks(turn: Turn) -> list[Body]:
    if isinstance(turn, User):
        return [{"type": "text", "text": turn.text}]
    if isinstance(turn, ToolResult):
        content: Any = [{"type": "text", "text": turn.text}] if turn.parts else turn.text
        return [{"type": "tool_result", "tool_use_id": turn.id, "content": content}]
    text = [{"type": "text", "text": turn.text}] if turn.text else []
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        for call in turn.calls
    ]
    return [*text, *calls]
