"""Random Messages requests, made of random chat requests."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.long.fuzz.checks import Request, spoilt, values_of
from tests.long.fuzz.requests import converted_to, text
from toolgate_proxy.api.messages.parameters import BY_NAME, PARAMETERS

VALUES = values_of(PARAMETERS)
CHOICES = {"none": "none", "auto": "auto", "required": "any"}
NOT_HERE = ("n", "stream_options", "logprobs", "top_logprobs")
"""Parameters of chat completions that the Messages API does not have, or has in another form."""
CONVERTED = (
    *("messages", "tools", "tool_choice", "parallel_tool_calls"),
    *("stop", "response_format", "reasoning_effort"),
)
Block = dict[str, Any]


def make_request(rng: Random, model: str, bias: dict[str, float] | None) -> Request:
    body, meaning = converted_to(rng, model, bias, BY_NAME, NOT_HERE, CONVERTED)
    _conversation(rng, meaning["messages"], body)
    _tools(rng, meaning, body)
    _format(rng, meaning, body)
    _thinking(rng, meaning, body)
    _extras(rng, body)
    return spoilt(rng, VALUES, body, meaning)


def _conversation(rng: Random, messages: list[dict[str, Any]], body: dict[str, Any]) -> None:
    shown: list[dict[str, Any]] = []
    results: list[Block] = []
    for at, message in enumerate(messages):
        match message["role"]:
            case "system" | "developer" as role:
                _system(rng, role, message["content"], shown, body)
            case "assistant":
                shown.append({"role": "assistant", "content": _turn(rng, message, at)})
            case "tool":
                results.append(_result(rng, message, at, messages))
            case _:
                blocks = _user(rng, message["content"])
                if results:
                    blocks = [*results, *([blocks] if isinstance(blocks, dict) else _list(blocks))]
                    results = []
                shown.append({"role": "user", "content": blocks})
                if rng.random() < 0.05:
                    shown.append({"role": "system", "content": text(rng)})
    if rng.random() < 0.04:
        # Templates reject a message to be continued that has marks of reasoning or of calls.
        shown.append({"role": "assistant", "content": rng.choice(["The weather", "I {", "é"])})
    body["messages"] = shown


def _list(content: str | list[Block]) -> list[Block]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _system(
    rng: Random, role: str, content: str, shown: list[dict[str, Any]], body: dict[str, Any]
) -> None:
    block = {"type": "text", "text": content, "cache_control": {"type": "ephemeral"}}
    if rng.random() < 0.3:
        shown.append({"role": role, "content": content})
    else:
        body["system"] = rng.choice([content, [block], [block, block]])


def _call_id(call_id: str, turn: int) -> str:
    return f"toolu_{turn}_{call_id}"


def _turn(rng: Random, message: dict[str, Any], at: int) -> list[Block]:
    blocks: list[Block] = []
    if rng.random() < 0.2:
        blocks.append({"type": "thinking", "thinking": text(rng), "signature": "of another model"})
    if rng.random() < 0.1:
        blocks.append({"type": "redacted_thinking", "data": "abc"})
    if rng.random() < 0.3:
        blocks.append({"type": "text", "text": text(rng)})
    for call in message["tool_calls"]:
        given = call["function"]["arguments"]
        blocks.append(
            {
                "type": "tool_use",
                "id": _call_id(call["id"], at),
                "name": call["function"]["name"],
                "input": given if isinstance(given, dict) else json.loads(given or "{}"),
            }
        )
    return blocks


def _result(rng: Random, message: dict[str, Any], at: int, messages: list[dict[str, Any]]) -> Block:
    turn = max(before for before, each in enumerate(messages[:at]) if each["role"] == "assistant")
    block: Block = {
        "type": "tool_result",
        "tool_use_id": _call_id(message["tool_call_id"], turn),
        "content": rng.choice([message["content"], _user(rng, message["content"])]),
    }
    if rng.random() < 0.2:
        block["is_error"] = rng.random() < 0.5
    if rng.random() < 0.1:
        del block["content"]
    return block


def _user(rng: Random, content: Any) -> str | list[Block]:
    parts = list(content) if isinstance(content, list) else [{"type": "text", "text": content}]
    if rng.random() < 0.1:
        source = {"type": "text", "media_type": "text/plain", "data": text(rng)}
        parts.append({"type": "document", "source": source, "title": text(rng)})
    if rng.random() < 0.05:
        inner = [{"type": "text", "text": text(rng)}]
        parts.append({"type": "search_result", "source": "s", "title": "t", "content": inner})
    return content if isinstance(content, str) and rng.random() < 0.7 else parts


def _tools(rng: Random, meaning: dict[str, Any], body: dict[str, Any]) -> None:
    if "tools" not in meaning:
        return
    body["tools"] = [_tool(rng, tool["function"]) for tool in meaning["tools"]]
    choice = meaning["tool_choice"]
    if isinstance(choice, dict) and choice["type"] == "allowed_tools":
        choice = meaning["tool_choice"] = choice["allowed_tools"]["mode"]
    if isinstance(choice, dict):
        body["tool_choice"] = {"type": "tool", "name": choice["function"]["name"]}
    else:
        body["tool_choice"] = {"type": CHOICES[choice]}
    if "parallel_tool_calls" in meaning:
        body["tool_choice"]["disable_parallel_tool_use"] = not meaning["parallel_tool_calls"]


def _tool(rng: Random, function: dict[str, Any]) -> dict[str, Any]:
    tool = {
        "name": function["name"],
        "description": function["description"],
        "input_schema": function["parameters"],
    }
    if rng.random() < 0.2:
        tool["type"] = "custom"
    if rng.random() < 0.3:
        tool["eager_input_streaming"] = rng.random() < 0.8
    if rng.random() < 0.1:
        tool["cache_control"] = {"type": "ephemeral", "ttl": "1h"}
    if rng.random() < 0.1:
        tool["input_examples"] = [{"a": 1}]
    return tool


def _format(rng: Random, meaning: dict[str, Any], body: dict[str, Any]) -> None:
    if "stop" in meaning:
        stop = meaning["stop"]
        body["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    form = meaning.get("response_format")
    if form is None:
        return
    if form["type"] == "json_object":
        body["structured_outputs"] = {"json_object": True}
        return
    shown = {"type": "json_schema", "schema": form["json_schema"]["schema"]}
    if rng.random() < 0.7:
        body["output_config"] = {"format": shown}
    else:
        body["output_format"] = shown


def _thinking(rng: Random, meaning: dict[str, Any], body: dict[str, Any]) -> None:
    effort = meaning.pop("reasoning_effort", None)
    if effort == "none":
        body["thinking"] = {"type": "disabled"}
    elif effort is not None:
        kinds = [{"type": "adaptive"}, {"type": "enabled", "budget_tokens": rng.choice([1, 20])}]
        body["thinking"] = rng.choice(kinds)
        if rng.random() < 0.3:
            body["thinking"]["display"] = rng.choice(["omitted", "summarized"])
        if rng.random() < 0.5:
            body.setdefault("output_config", {})["effort"] = effort


def _extras(rng: Random, body: dict[str, Any]) -> None:
    if rng.random() < 0.2:
        body["metadata"] = {"user_id": "u"}
    if rng.random() < 0.1:
        body["service_tier"] = "auto"
    if rng.random() < 0.1:
        body["cache_control"] = {"type": "ephemeral"}
    if rng.random() < 0.1:
        edit = {"type": "clear_tool_uses_20250919", "keep": {"type": "tool_uses", "value": 1}}
        edit |= {"trigger": {"type": "tool_uses", "value": rng.randint(0, 3)}}
        body["context_management"] = {"edits": [{"type": "clear_thinking_20251015"}, edit]}
