"""Checks of a response against its request."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import jsonschema

from tests.long.fuzz.values import Request
from tests.long.judgement import Allowed, violations
from tests.support.apis.replies import Reply

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
    if allowed.mode == "required" and not answer.calls and body.get("toolgate"):
        wrong.append("no call, though on_budget is close")
    if allowed.mode == "required" and answer.text:
        wrong.append("content, though a call is required")
    if reply.last_call == "cut" and (not answer.cut or body.get("toolgate")):
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
