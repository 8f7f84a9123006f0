"""Checks of a response against its request."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

from tests.long.fuzz.values import Request

MARKUP = ("<tool_call>", "</tool_call>", "<think>", "</think>", "<|im_end|>", "<|im_start|>")
WITHOUT_PATH: tuple[str, ...] = ()
"""Codes of rejections that name no parameter."""
REASONS = ("stop", "length", "tool_calls", "function_call")


def check_rejection(status: int, error: dict[str, Any], request: Request) -> list[str]:
    """A rejection must be a 4xx that names the invalid parameter. `error`: the error object."""
    if status == 400 and error["code"] == "max_tokens_too_small":
        small = request.meaning.get("max_tokens", 0) < error["least_max_tokens"]
        return [] if small else [f"rejected for a small maximum of tokens: {error}"]
    if request.invalid and status == 400 and request.invalid in str(error.get("param")):
        return []
    if 400 <= status < 500 and request.wrong:
        named = error.get("param") or error["code"] in WITHOUT_PATH
        return [] if named else [f"HTTP {status} names no parameter: {error}"]
    return [f"HTTP {status}: {error}"]


def check_response(response: dict[str, Any], request: Request) -> list[str]:
    """`response`: in the form of chat completions."""
    body = request.meaning
    if request.invalid:
        return [f"no error for an invalid value of {request.invalid}"]
    if request.wrong:
        return []  # its parameters can't be checked
    wrong: list[str] = []
    choices = response["choices"]
    if len(choices) != body.get("n", 1):
        wrong.append(f"{len(choices)} choices")
    used = response.get("usage")
    if used and used["completion_tokens"] > body["max_tokens"] * len(choices):
        wrong.append(f"{used['completion_tokens']} tokens")
    for choice in choices:
        wrong += [f"choice {choice['index']}: {each}" for each in _check_choice(choice, body)]
    return wrong


def _check_choice(choice: dict[str, Any], body: dict[str, Any]) -> list[str]:
    message, reason = choice["message"], choice["finish_reason"]
    calls = _calls(message)
    content = message.get("content") or ""
    wrong = [
        f"markup {mark} in {name}"
        for name in ("content", "reasoning_content")
        for mark in MARKUP
        if mark in (message.get(name) or "")
    ]
    if reason not in REASONS:
        wrong.append(f"finish_reason {reason}")
    wrong += _check_calls(calls, choice, body)
    wrong += _check_content(content, calls, choice, body)
    if choice.get("token_ids") is not None and len(choice["token_ids"]) > body["max_tokens"]:
        wrong.append("more token ids than max_tokens")
    return wrong


def _check_calls(
    calls: list[tuple[str, str]], choice: dict[str, Any], body: dict[str, Any]
) -> list[str]:
    wrong: list[str] = []
    reason, mark = choice["finish_reason"], (choice.get("toolgate") or {}).get("last_call")
    schemas, mode, single = _allowed(body)
    if mode == "none" and calls:
        wrong.append("a call, though tool_choice is none")
    if mode == "required" and not calls and reason != "length":
        wrong.append("no call, though a call is required")
    if mode == "required" and not calls and body.get("toolgate"):
        wrong.append("no call, though on_budget is close")
    if mode == "required" and (choice["message"].get("content") or ""):
        wrong.append("content, though a call is required")
    if single and len(calls) > 1:
        wrong.append(f"{len(calls)} calls")
    if mark == "cut" and (reason != "length" or body.get("toolgate")):
        wrong.append(f"a truncated call with finish_reason {reason}")
    for name, arguments in calls[:-1] if mark == "cut" else calls:
        if name not in schemas:
            wrong.append(f"a call of the unknown tool {name}")
            continue
        try:
            jsonschema.validate(json.loads(arguments), schemas[name])
        except (ValueError, jsonschema.ValidationError) as error:
            wrong.append(f"{name}({arguments}): {str(error).splitlines()[0]}")
    return wrong


def _check_content(
    content: str, calls: list[tuple[str, str]], choice: dict[str, Any], body: dict[str, Any]
) -> list[str]:
    wrong: list[str] = []
    stops = body.get("stop") or []
    for stop in [stops] if isinstance(stops, str) else stops:
        if stop in content:
            wrong.append(f"the stop string {stop!r} in the content")
    logprobs = choice.get("logprobs") or {}
    if logprobs.get("content"):
        spelled = b"".join(bytes(token["bytes"]) for token in logprobs["content"])
        if content.rstrip("�") not in spelled.decode(errors="replace"):
            wrong.append("logprobs that do not match the content")
    form, stopped = body.get("response_format"), choice.get("stop_reason") is not None
    if form is None or choice["finish_reason"] != "stop" or stopped or calls:
        return wrong
    schema = {"type": "object"}
    if form["type"] == "json_schema":
        schema = form["json_schema"]["schema"]
    try:
        jsonschema.validate(json.loads(content), schema)
    except (ValueError, jsonschema.ValidationError) as error:
        wrong.append(f"content {content[:200]!r}: {str(error).splitlines()[0]}")
    return wrong


def _allowed(body: dict[str, Any]) -> tuple[dict[str, Any], str, bool]:
    """Schemas of the allowed tools, mode (none, auto, required), and whether calls are single."""
    functions = body.get("functions") or [tool["function"] for tool in body.get("tools", [])]
    schemas = {function["name"]: function["parameters"] for function in functions}
    choice = body.get("function_call") or body.get("tool_choice") or "auto"
    single = "functions" in body or body.get("parallel_tool_calls") is False
    if not functions:
        return {}, "none", single
    if isinstance(choice, str):
        return schemas, choice, single
    if choice.get("type") == "allowed_tools":
        names = [tool["function"]["name"] for tool in choice["allowed_tools"]["tools"]]
        mode = choice["allowed_tools"]["mode"]
        return {name: schemas[name] for name in names}, mode, single
    name = choice.get("name") or choice["function"]["name"]
    return {name: schemas[name]}, "required", True


def _calls(message: dict[str, Any]) -> list[tuple[str, str]]:
    if message.get("function_call"):
        return [(message["function_call"]["name"], message["function_call"]["arguments"])]
    calls = message.get("tool_calls") or []
    return [(call["function"]["name"], call["function"]["arguments"]) for call in calls]


def from_chunks(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """Combine the chunks of a stream. Raises ValueError if they violate OpenAI's format."""
    choices: dict[int, dict[str, Any]] = {}
    usage = None
    for chunk in chunks:
        if "error" in chunk:
            raise ValueError(f"an error in the stream: {chunk['error']}")
        usage = chunk.get("usage") or usage
        for part in chunk["choices"]:
            _merge(choices, part)
    if any(choice["finish_reason"] is None for choice in choices.values()):
        raise ValueError("a choice without a finish_reason")
    return {"choices": [choices[index] for index in sorted(choices)], "usage": usage}


def _merge(choices: dict[int, dict[str, Any]], part: dict[str, Any]) -> None:
    index, delta = part["index"], part["delta"]
    if index not in choices:
        if delta.get("role") != "assistant":
            raise ValueError("the first delta of a choice has no role")
        choices[index] = {"index": index, "message": {}, "finish_reason": None}
    choice = choices[index]
    if choice["finish_reason"] is not None:
        raise ValueError("a delta after the finish_reason of its choice")
    message = choice["message"]
    for name in ("content", "reasoning_content"):
        if delta.get(name) is not None:
            message[name] = message.get(name, "") + delta[name]
    if (call := delta.get("function_call")) is not None:
        made = message.setdefault("function_call", {"name": "", "arguments": ""})
        made["name"] += call.get("name") or ""
        made["arguments"] += call.get("arguments") or ""
    for call in delta.get("tool_calls") or []:
        calls = message.setdefault("tool_calls", [])
        if call["index"] == len(calls):
            calls.append({"id": call["id"], "function": dict(call["function"])})
        elif call["index"] != len(calls) - 1:
            raise ValueError("tool calls out of order")
        else:
            calls[-1]["function"]["arguments"] += call["function"]["arguments"]
    if part.get("logprobs"):
        logprobs = choice.setdefault("logprobs", {"content": []})
        logprobs["content"] += part["logprobs"].get("content") or []
    if part.get("token_ids"):
        choice.setdefault("token_ids", []).extend(part["token_ids"])
    for name in ("stop_reason", "toolgate"):
        if part.get(name) is not None:
            choice[name] = part[name]
    choice["finish_reason"] = part.get("finish_reason")
