"""The Responses API. Events and response objects are checked by OpenAI's own models."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.long.fuzz.apis.chat import openai_error
from tests.long.fuzz.apis.responses_requests import INPUT, make_request
from tests.long.fuzz.values import Request
from tests.support.apis.responses_api import accumulated, check_response
from tests.support.apis.typed_events import read_events


class Responses:
    path = "/v1/responses"

    def make_request(self, rng: Random, model: str, bias: dict[str, float] | None) -> Request:
        return make_request(rng, model, bias)

    def whole(self, data: bytes) -> dict[str, Any]:
        body = json.loads(data)
        check_response(body)
        return _as_chat(body)

    def streamed(self, data: bytes) -> dict[str, Any]:
        events = read_events(data)
        last = events[-1]
        if last["type"] not in ("response.completed", "response.incomplete"):
            raise ValueError(f"the stream ended with {last}")
        if accumulated(events) != last["response"]["output"]:
            raise ValueError("the events do not add up to the response")
        check_response(last["response"])
        return _as_chat(last["response"])

    def error(self, body: Any) -> dict[str, Any]:
        return openai_error(body)

    def own_violations(self, response: dict[str, Any], request: Request) -> list[str]:
        made, wrong = response["response"], []
        ids = [item["id"] for item in made["output"]]
        if len(set(ids)) != len(ids):
            wrong.append("two items with one id")
        if not made["output"]:
            wrong.append("no output")
        for name in ("store", "metadata", "parallel_tool_calls"):
            if name in request.body and made[name] != request.body[name]:
                wrong.append(f"{name} is {made[name]!r}")
        return wrong


def _as_chat(body: dict[str, Any]) -> dict[str, Any]:
    def parts(kind: str) -> list[dict[str, Any]]:
        items = [item for item in body["output"] if item["type"] == kind]
        return [
            part for item in items for part in [*item.get("content", ()), *item.get("summary", ())]
        ]

    texts = parts("message")
    calls = [
        item for item in body["output"] if item["type"] in ("function_call", "custom_tool_call")
    ]
    cut = bool(calls) and calls[-1]["status"] == "incomplete"
    reason = "tool_calls" if calls else "stop"
    choice = {
        "index": 0,
        "message": {
            "content": "".join(part["text"] for part in texts),
            "reasoning_content": "".join(part["text"] for part in parts("reasoning")),
            "tool_calls": [{"function": _function(call)} for call in calls],
        },
        "finish_reason": "length" if body["status"] == "incomplete" else reason,
        "logprobs": {"content": [each for part in texts for each in part["logprobs"]]},
        "stop_reason": body.get("stop_reason"),
        "toolgate": {"last_call": "cut"} if cut else body.get("toolgate"),
        "token_ids": body.get("token_ids"),
    }
    usage = {"completion_tokens": body["usage"]["output_tokens"]}
    return {"choices": [choice], "usage": usage, "response": body}


def _function(call: dict[str, Any]) -> dict[str, Any]:
    namespace = call.get("namespace")
    name = f"{namespace}.{call['name']}" if namespace else call["name"]
    if call["type"] == "custom_tool_call":
        return {"name": name, "arguments": json.dumps({INPUT: call["input"]})}
    return {"name": name, "arguments": call["arguments"]}
