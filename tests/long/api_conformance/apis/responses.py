"""The Responses API. Events and response objects are checked by OpenAI's own models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.long.api_conformance.answer import Answer
from tests.long.api_conformance.case import Case
from tests.support.apis.responses_api import accumulated, check_response
from tests.support.apis.typed_events import read_events


class Responses:
    name = "Responses"
    path = "/v1/responses"
    exact = True
    streaming: Mapping[str, Any] = {"stream": True}

    def request(self, case: Case) -> dict[str, Any]:
        named = {"type": "function", "name": case.named}
        body = {
            **case.common,
            "input": case.messages,
            "max_output_tokens": case.max_tokens,
            "tools": [{"type": "function", **tool} for tool in case.tools],
            "tool_choice": named if case.choice == "named" else case.choice,
            "parallel_tool_calls": case.parallel,
            "store": False,
        }
        if case.think is not None:
            body["chat_template_kwargs"] = {"enable_thinking": case.think}
        return body

    def whole(self, data: bytes) -> Answer:
        body = json.loads(data)
        check_response(body)
        return _answer(body)

    def streamed(self, data: bytes) -> Answer:
        events = read_events(data)
        last = events[-1]["response"]
        assert accumulated(events) == last["output"], "the events do not add up to the response"
        check_response(last)
        return _answer(last)

    def reason(self, case: Case, answer: Answer) -> str:
        return "max_output_tokens" if answer.cut else "completed"

    def shows_reasoning(self, case: Case) -> bool:
        return True


def _answer(body: Mapping[str, Any]) -> Answer:
    def text(kind: str) -> str:
        items = [item for item in body["output"] if item["type"] == kind]
        return "".join(part["text"] for item in items for part in item["content"])

    calls = [item for item in body["output"] if item["type"] == "function_call"]
    usage, incomplete = body["usage"], body["incomplete_details"]
    return Answer(
        text("message"),
        text("reasoning"),
        tuple((call["name"], call["arguments"]) for call in calls),
        tuple(call["status"] == "completed" for call in calls),
        body["status"] == "incomplete",
        (usage["input_tokens"], usage["output_tokens"]),
        incomplete["reason"] if incomplete else body["status"],
    )
