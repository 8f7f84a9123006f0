"""Checks of a response against its request."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import jsonschema

from tests.long.fuzz.values import Request
from tests.long.judgement import Allowed, violations
from tests.support.apis.replies import Reply
from toolgate_verify.terms import Api

Json = dict[str, Any]
WITHOUT_PATH: tuple[str, ...] = ()
"""Codes of rejections that name no parameter."""
FINISHES = ("stop", "length", "calls", "stop_sequence")


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


def check_response(replies: Sequence[Reply], request: Request) -> list[str]:
    """List what is wrong with the choices of a response."""
    body = request.meaning
    if request.invalid:
        return [f"no error for an invalid value of {request.invalid}"]
    if request.wrong:
        return []  # its parameters can't be checked
    wrong: list[str] = []
    if len(replies) != body.get("n", 1):
        wrong.append(f"{len(replies)} choices")
    used = replies[0].answer.usage if replies else None
    if used and used.completion > body["max_tokens"] * len(replies):
        wrong.append(f"{used.completion} tokens")
    for at, reply in enumerate(replies):
        wrong += [f"choice {at}: {each}" for each in _check_choice(reply, body)]
    return wrong


def _check_choice(reply: Reply, body: dict[str, Any]) -> list[str]:
    answer, allowed = reply.answer, _allowed(body)
    wrong = [f"{kind}: {detail}" for kind, detail in violations(answer, allowed)]
    if answer.finish not in FINISHES:
        wrong.append(f"the end is {answer.finish!r}")
    if allowed.mode == "required" and answer.text:
        wrong.append("content, though a call is required")
    if reply.last_call == "cut" and not answer.cut:
        wrong.append(f"a truncated call, though the end is {answer.finish!r}")
    wrong += _check_content(reply, body)
    if reply.token_ids is not None and len(reply.token_ids) > body["max_tokens"]:
        wrong.append("more token ids than max_tokens")
    return wrong


def _check_content(reply: Reply, body: dict[str, Any]) -> list[str]:
    wrong: list[str] = []
    content = reply.answer.text
    stops = body.get("stop") or []
    for stop in [stops] if isinstance(stops, str) else stops:
        if stop in content:
            wrong.append(f"the stop string {stop!r} in the content")
    if reply.logprobs:
        spelled = b"".join(bytes(token["bytes"]) for token in reply.logprobs)
        if content.rstrip("�") not in spelled.decode(errors="replace"):
            wrong.append("logprobs that do not match the content")
    form = body.get("response_format")
    if form is None or reply.answer.finish != "stop" or reply.stopped_by is not None:
        return wrong
    schema = {"type": "object"}
    if form["type"] == "json_schema":
        schema = form["json_schema"]["schema"]
    try:
        jsonschema.validate(json.loads(content), schema)
    except (ValueError, jsonschema.ValidationError) as error:
        wrong.append(f"content {content[:200]!r}: {str(error).splitlines()[0]}")
    return wrong


def _allowed(body: dict[str, Any]) -> Allowed:
    functions = body.get("functions") or [tool["function"] for tool in body.get("tools", [])]
    schemas = {function["name"]: function["parameters"] for function in functions}
    choice = body.get("function_call") or body.get("tool_choice") or "auto"
    single = "functions" in body or body.get("parallel_tool_calls") is False
    if not functions:
        return Allowed({}, "none", single)
    if isinstance(choice, str):
        return Allowed(schemas, choice, single)
    if choice.get("type") == "allowed_tools":
        names = [tool["function"]["name"] for tool in choice["allowed_tools"]["tools"]]
        mode = choice["allowed_tools"]["mode"]
        return Allowed({name: schemas[name] for name in names}, mode, single)
    name = choice.get("name") or choice["function"]["name"]
    return Allowed({name: schemas[name]}, "required", single=True)


def own_violations(api: Api, reply: Reply, request: Request) -> list[str]:
    """List the rules of the API that the response breaks."""
    if api == Api.RESPONSES:
        return _of_response(reply.body, request.body)
    return _of_message(reply.body, request.body) if api == Api.MESSAGES else []


def _of_response(response: Json, asked: Json) -> list[str]:
    wrong = []
    ids = [item["id"] for item in response["output"]]
    if len(set(ids)) != len(ids):
        wrong.append("two items with one id")
    if not response["output"]:
        wrong.append("no output")
    for name in ("store", "metadata", "parallel_tool_calls"):
        if name in asked and response[name] != asked[name]:
            wrong.append(f"{name} is {response[name]!r}")
    return wrong


def _of_message(message: Json, asked: Json) -> list[str]:
    wrong = []
    reason, blocks = message["stop_reason"], message["content"]
    calls = [block for block in blocks if block["type"] == "tool_use"]
    thinking = [block for block in blocks if block["type"] == "thinking"]
    if (reason == "tool_use") != bool(calls) and reason != "max_tokens":
        wrong.append(f"stop_reason {reason} with {len(calls)} calls")
    stops = asked.get("stop_sequences") or []
    if reason == "stop_sequence" and message["stop_sequence"] not in stops:
        wrong.append(f"stop_sequence {message['stop_sequence']!r}")
    if len({call["id"] for call in calls}) != len(calls):
        wrong.append("two calls with one id")
    if not all(block["signature"] for block in thinking):
        wrong.append("thinking without a signature")
    if thinking and not _shows_thinking(asked):
        wrong.append("thinking that was not asked for")
    if any(not block.get("text", "x") for block in blocks):
        wrong.append("an empty block of text")
    return wrong


def _shows_thinking(asked: Json) -> bool:
    if (wanted := asked.get("include_reasoning")) is not None:
        return bool(wanted)
    return asked.get("thinking", {}).get("type") in ("enabled", "adaptive")
