"""Random chat requests. Most are valid, and some have something that is or may be invalid.

The requests of the other APIs are made of them.
"""

from __future__ import annotations

from collections.abc import Collection, Container
from random import Random
from typing import Any

from tests.long.fuzz.checks import Request, spoilt, values_of
from toolgate_proxy.api.chat_completions.parameters import PARAMETERS

WORDS = [
    "the",
    "weather",
    "in",
    "Rome",
    "tell",
    "me",
    "set",
    "a",
    "name",
    "now",
    "and",
    "why",
    "北京",
    "é",
    "🙂",
    "<tool_call>",
    "</think>",
    "\\",
    '"',
]
MAX_TOKENS = [1, 2, 5, 12, 20, 30, 45, 64, 100, 180, 300]

VALUES = values_of(PARAMETERS)


def make_request(rng: Random, model: str, bias: dict[str, float] | None) -> Request:
    return spoilt(rng, VALUES, draw(rng, model, bias))


def draw(rng: Random, model: str, bias: dict[str, float] | None) -> dict[str, Any]:
    """The body of a valid request."""
    body: dict[str, Any] = {"model": model, "messages": _messages(rng)}
    _tools(rng, body)
    _ends(rng, body)
    _sampling(rng, body, bias)
    _reasoning(rng, body)
    _shape(rng, body)
    return body


def without_functions(body: dict[str, Any]) -> dict[str, Any]:
    """The same body with `tools` in place of the deprecated `functions`."""
    if "functions" not in body:
        return body
    functions, choice = body.pop("functions"), body.pop("function_call")
    body["tools"] = [{"type": "function", "function": function} for function in functions]
    named = isinstance(choice, dict)
    body["tool_choice"] = {"type": "function", "function": choice} if named else choice
    body["parallel_tool_calls"] = False
    return body


def converted_to(
    rng: Random,
    model: str,
    bias: dict[str, float] | None,
    known: Container[str],
    without: Collection[str],
    converted: Collection[str],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A random chat request for another API: the body with the parameters that the API has in the
    same form, and the meaning, which has the `converted` ones as well. `without`: those that the
    API does not have, or that are not drawn for it."""
    drawn = without_functions(draw(rng, model, bias))
    meaning = {
        name: value
        for name, value in drawn.items()
        if name not in without and (name in known or name in converted)
    }
    body = {name: value for name, value in meaning.items() if name not in converted}
    return body, meaning


def schema(rng: Random, depth: int = 0) -> dict[str, Any]:
    """A random JSON Schema that at least one engine supports."""
    kinds = ["string", "enum", "integer", "number", "boolean", "short", "nullable"]
    kind = rng.choice(kinds if depth > 2 else [*kinds, "array", "object", "object"])
    if kind == "object":
        return _object(rng, depth)
    if kind == "array":
        least = rng.randint(0, 2)
        items = schema(rng, depth + 1)
        return {"type": "array", "items": items, "minItems": least, "maxItems": least + 2}
    plain: dict[str, dict[str, Any]] = {
        "enum": {"type": "string", "enum": rng.sample(["a", "bc", "é", "celsius", "x y"], 3)},
        "integer": {"type": "integer", "minimum": -3, "maximum": rng.choice([5, 1000])},
        "short": {"type": "string", "minLength": 2, "maxLength": rng.choice([3, 12])},
        "nullable": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    }
    return plain.get(kind, {"type": kind})


def _object(rng: Random, depth: int) -> dict[str, Any]:
    names = rng.sample(["city", "unit", "a", "tags", "é", "long_name_of_it"], rng.randint(1, 4))
    required = [name for name in names if rng.random() < 0.6]
    return {
        "type": "object",
        "properties": {name: schema(rng, depth + 1) for name in names},
        "required": required,
        "additionalProperties": False,
    }


def _messages(rng: Random) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if rng.random() < 0.4:
        messages.append({"role": rng.choice(["system", "developer"]), "content": text(rng)})
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        calls = [_call(f"call_{at}", rng) for at in range(rng.randint(1, 2))]
        messages.append({"role": "user", "content": text(rng)})
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": text(rng)} for call in calls
        ]
        messages += rng.sample(results, len(results))
    parts = [{"type": "text", "text": text(rng)}, {"type": "text", "text": text(rng)}]
    messages.append({"role": "user", "content": rng.choice([text(rng), parts])})
    return messages


def _call(call_id: str, rng: Random) -> dict[str, Any]:
    arguments = rng.choice(['{"city": "Rome"}', "{}", {"city": "Rome"}, ""])
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": "past", "arguments": arguments},
    }


def text(rng: Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 12)))


def _tools(rng: Random, body: dict[str, Any]) -> None:
    functions = [
        {"name": f"tool_{at}", "description": text(rng), "parameters": _object(rng, 1)}
        for at in range(rng.choice([0, 1, 1, 2, 3, 5]))
    ]
    if not functions:
        return
    if rng.random() < 0.08:
        body["functions"] = functions
        body["function_call"] = rng.choice(["none", "auto", {"name": functions[0]["name"]}])
        return
    body["tools"] = [{"type": "function", "function": function} for function in functions]
    first = {"type": "function", "function": {"name": functions[0]["name"]}}
    mode = rng.choice(["auto", "required"])
    allowed = {"mode": mode, "tools": [first]}
    choices: list[Any] = ["none", "auto", "auto", "required", "required", first]
    choices.append({"type": "allowed_tools", "allowed_tools": allowed})
    body["tool_choice"] = rng.choice(choices)
    if rng.random() < 0.4:
        body["parallel_tool_calls"] = rng.random() < 0.5


def _ends(rng: Random, body: dict[str, Any]) -> None:
    body["max_tokens"] = rng.choice(MAX_TOKENS)
    if rng.random() < 0.2:
        body["stop"] = rng.choice(["a", ["e ", "th"], ["\n", "}", "。"], [" "]])
    if rng.random() < 0.1:
        body["stop_token_ids"] = rng.sample(range(300, 6000), 40)
    if rng.random() < 0.1:
        body["min_tokens"] = rng.randint(1, min(20, body["max_tokens"]))
    if rng.random() < 0.05:
        body["ignore_eos"] = True
    if rng.random() < 0.1:
        body["bad_words"] = rng.sample(["the", "a", "weather", "é"], 2)
    if rng.random() < 0.2:
        json_schema = {"name": "x", "schema": _object(rng, 1)}
        body["response_format"] = rng.choice(
            [{"type": "json_object"}, {"type": "json_schema", "json_schema": json_schema}]
        )


def _sampling(rng: Random, body: dict[str, Any], bias: dict[str, float] | None) -> None:
    body["temperature"] = rng.choice([0, 0.3, 1.0, 1.0, 1.7])
    for name, values in VALUES.sampling.items():
        if rng.random() < 0.15:
            body[name] = rng.choice(values)
    if rng.random() < 0.2:
        body["n"] = rng.choice([1, 2, 3])
    if bias is not None and rng.random() < 0.7:
        body["logit_bias"] = bias


def _reasoning(rng: Random, body: dict[str, Any]) -> None:
    if rng.random() < 0.6:
        body["reasoning_effort"] = rng.choice(["none", "none", "low", "high"])
    if rng.random() < 0.3:
        body["reasoning_budget"] = rng.choice([0, 1, 10, 50])


def _shape(rng: Random, body: dict[str, Any]) -> None:
    body["stream"] = rng.random() < 0.5
    if body["stream"] and rng.random() < 0.5:
        body["stream_options"] = {"include_usage": True}
    if rng.random() < 0.2:
        body["logprobs"] = True
        body["top_logprobs"] = rng.choice([0, 1, 3])
    if rng.random() < 0.2:
        body["return_token_ids"] = True
    if rng.random() < 0.1:
        body["include_reasoning"] = False
