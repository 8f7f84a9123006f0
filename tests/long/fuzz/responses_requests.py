"""Random Responses requests, made of random chat requests."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.long.fuzz.checks import Request, spoilt, values_of
from tests.long.fuzz.requests import converted_to, text
from tests.long.judgement import INPUT
from toolgate_proxy.api.responses.parameters import BY_NAME, INCLUDES, LOGPROBS, PARAMETERS

VALUES = values_of(PARAMETERS)
NOT_HERE = ("n", "stream_options")
CONVERTED = (
    *("messages", "max_tokens", "tools", "tool_choice"),
    *("response_format", "reasoning_effort", "logprobs"),
)
"""Parameters of chat completions that the Responses API has in another form."""
HOSTED = [{"type": "web_search"}, {"type": "image_generation"}]
Item = dict[str, Any]


def make_request(rng: Random, model: str, bias: dict[str, float] | None) -> Request:
    body, meaning = converted_to(rng, model, bias, BY_NAME, NOT_HERE, CONVERTED)
    body["max_output_tokens"] = meaning["max_tokens"]
    _input(rng, meaning["messages"], body)
    if "tools" in meaning:
        _tools(rng, meaning, body)
    _objects(rng, meaning, body)
    _extras(rng, body)
    return spoilt(rng, VALUES, body, meaning)


def _input(rng: Random, messages: list[dict[str, Any]], body: dict[str, Any]) -> None:
    items: list[Item | str] = []
    for at, message in enumerate(messages):
        match message["role"]:
            case "assistant":
                items += _turn(rng, message, at)
            case "tool":
                items.append(_result(rng, message, at, messages))
            case "user":
                items.append(_message(rng, "user", message["content"]))
            case role if rng.random() < 0.5:
                items.append(_message(rng, role, message["content"]))
            case _:
                body["instructions"] = message["content"]
    only = messages[-1]["content"]
    alone = len(items) == 1 and isinstance(only, str)
    body["input"] = only if alone and rng.random() < 0.5 else items


def _message(rng: Random, role: str, content: Any) -> Item:
    if isinstance(content, list) or rng.random() < 0.3:
        texts = content if isinstance(content, list) else [{"text": content}]
        content = [{"type": "input_text", "text": part["text"]} for part in texts]
    item = {"role": role, "content": content}
    return item | ({"type": "message"} if rng.random() < 0.6 else {})


def _call_id(call_id: str, turn: int) -> str:
    return f"call_{turn}_{call_id}"


def _turn(rng: Random, message: dict[str, Any], at: int) -> list[Item]:
    items: list[Item] = []
    if rng.random() < 0.3:
        name, kind = rng.choice([("content", "reasoning_text"), ("summary", "summary_text")])
        thought = {"type": kind, "text": text(rng)}
        items.append({"type": "reasoning", "id": f"rs_{at}", "summary": [], name: [thought]})
    if rng.random() < 0.3:
        part: Item = {"type": "output_text", "text": text(rng), "annotations": []}
        items.append({"type": "message", "role": "assistant", "content": [part]})
    for call in message["tool_calls"]:
        given = call["function"]["arguments"]
        item = {"type": "function_call", "call_id": _call_id(call["id"], at)}
        if rng.random() < 0.2:
            item |= {"type": "custom_tool_call", "name": "past", "input": text(rng)}
        else:
            item["name"] = call["function"]["name"]
            item["arguments"] = json.dumps(given) if isinstance(given, dict) else given
        items.append(item)
    return items


def _result(rng: Random, message: dict[str, Any], at: int, messages: list[dict[str, Any]]) -> Item:
    turn = max(before for before, each in enumerate(messages[:at]) if each["role"] == "assistant")
    content = message["content"]
    return {
        "type": "function_call_output",
        "call_id": _call_id(message["tool_call_id"], turn),
        "output": rng.choice([content, [{"type": "input_text", "text": content}]]),
    }


def _tools(rng: Random, meaning: dict[str, Any], body: dict[str, Any]) -> None:
    tools = [{"type": "function", **tool["function"]} for tool in meaning["tools"]]
    if rng.random() < 0.15:
        custom = {"type": "custom", "name": "free", "description": text(rng)}
        tools.append(custom)
        meaning["tools"].append({"function": {"name": "free", "parameters": _custom()}})
    if rng.random() < 0.15:
        inner = {**tools[0], "name": "deep"}
        tools.append({"type": "namespace", "name": "ns", "description": "n", "tools": [inner]})
        parameters = meaning["tools"][0]["function"]["parameters"]
        meaning["tools"].append({"function": {"name": "ns.deep", "parameters": parameters}})
    if rng.random() < 0.15:
        tools.insert(rng.randint(0, len(tools)), rng.choice(HOSTED))
    body["tools"] = tools
    choice = meaning["tool_choice"]
    if isinstance(choice, dict):
        first = {"type": "function", "name": tools_name(meaning)}
        if choice["type"] == "allowed_tools":
            mode = choice["allowed_tools"]["mode"]
            choice = {"type": "allowed_tools", "mode": mode, "tools": [first]}
        else:
            choice = first
    body["tool_choice"] = choice


def tools_name(meaning: dict[str, Any]) -> str:
    name: str = meaning["tools"][0]["function"]["name"]
    return name


def _custom() -> dict[str, Any]:
    text = {"type": "string"}
    return {"type": "object", "properties": {INPUT: text}, "required": [INPUT]}


def _objects(rng: Random, meaning: dict[str, Any], body: dict[str, Any]) -> None:
    effort = meaning.pop("reasoning_effort", None)
    if effort is not None:
        body["reasoning"] = {"effort": effort}
    if rng.random() < 0.3:
        body.setdefault("reasoning", {})["summary"] = rng.choice(["auto", "detailed"])
    form = meaning.get("response_format")
    if form is not None:
        nested = form.get("json_schema", {})
        body["text"] = {"format": {"type": form["type"], **nested}}
    elif rng.random() < 0.1:
        body["text"] = {"format": {"type": "text"}, "verbosity": "low"}
    if meaning.pop("logprobs", False):
        body["include"] = [LOGPROBS]


def _extras(rng: Random, body: dict[str, Any]) -> None:
    if rng.random() < 0.2:
        body["include"] = [*body.get("include", ()), rng.choice(INCLUDES[1:])]
    if rng.random() < 0.5:
        body["store"] = rng.random() < 0.5
    if rng.random() < 0.2:
        body["metadata"] = {"a": "b"}
    if body["stream"] and rng.random() < 0.2:
        body["stream_options"] = {"include_obfuscation": False}
    if rng.random() < 0.1:
        body["truncation"] = "disabled"
