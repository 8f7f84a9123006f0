"""The Messages API. Events and messages are checked by Anthropic's own models, and the order of
events by a state machine."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.long.fuzz.apis.messages_requests import make_request
from tests.long.fuzz.values import Request
from tests.support.apis.messages_api import accumulated, check_error, check_message
from tests.support.apis.typed_events import read_events

REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
}
"""By `stop_reason`: the `finish_reason` of chat completions."""


class Messages:
    path = "/v1/messages"

    def make_request(self, rng: Random, model: str, bias: dict[str, float] | None) -> Request:
        return make_request(rng, model, bias)

    def whole(self, data: bytes) -> dict[str, Any]:
        body = json.loads(data)
        check_message(body)
        return _as_chat(body)

    def streamed(self, data: bytes) -> dict[str, Any]:
        events = read_events(data)
        for event in events:
            if event["type"] == "error":
                raise ValueError(f"an error in the stream: {event}")
        return _as_chat(accumulated(events))

    def error(self, body: Any) -> dict[str, Any]:
        assert body["type"] == "error"
        assert body["request_id"]
        check_error(body)
        error: dict[str, Any] = body["error"]
        return error

    def own_violations(self, response: dict[str, Any], request: Request) -> list[str]:
        message, wrong = response["message"], []
        reason, blocks = message["stop_reason"], message["content"]
        calls = [block for block in blocks if block["type"] == "tool_use"]
        thinking = [block for block in blocks if block["type"] == "thinking"]
        if (reason == "tool_use") != bool(calls) and reason != "max_tokens":
            wrong.append(f"stop_reason {reason} with {len(calls)} calls")
        if reason == "stop_sequence":
            stops = request.body.get("stop_sequences") or []
            if message["stop_sequence"] not in stops:
                wrong.append(f"stop_sequence {message['stop_sequence']!r}")
        if len({call["id"] for call in calls}) != len(calls):
            wrong.append("two calls with one id")
        if not all(block["signature"] for block in thinking):
            wrong.append("thinking without a signature")
        if thinking and not is_shown(request.body):
            wrong.append("thinking that was not asked for")
        if any(not block.get("text", "x") for block in blocks):
            wrong.append("an empty block of text")
        return wrong


def is_shown(body: dict[str, Any]) -> bool:
    """Whether the message may have thinking blocks."""
    if (wanted := body.get("include_reasoning")) is not None:
        return bool(wanted)
    return body.get("thinking", {}).get("type") in ("enabled", "adaptive")


def _as_chat(message: dict[str, Any]) -> dict[str, Any]:
    """A call that was cut is no part of a message, so there is no mark of it."""
    blocks, own = message["content"], message.get("toolgate") or {}
    calls = [
        {"function": {"name": block["name"], "arguments": json.dumps(block["input"])}}
        for block in blocks
        if block["type"] == "tool_use"
    ]
    choice = {
        "index": 0,
        "message": {
            "content": "".join(block["text"] for block in blocks if block["type"] == "text"),
            "reasoning_content": "".join(block.get("thinking", "") for block in blocks),
            "tool_calls": calls,
        },
        "finish_reason": REASONS[message["stop_reason"]],
        "stop_reason": message["stop_sequence"] or own.get("stop_token"),
        "toolgate": {"last_call": "closed"} if own.get("last_call") == "closed" else None,
        "token_ids": message.get("token_ids"),
    }
    usage = {"completion_tokens": message["usage"]["output_tokens"]}
    return {"choices": [choice], "usage": usage, "message": message}
