"""Rules of one API alone, which a response in the form of no API does not show."""

from __future__ import annotations

from typing import Any

from tests.long.fuzz.values import Request
from tests.support.apis.replies import Reply
from toolgate_verify.terms import Api

Json = dict[str, Any]


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
