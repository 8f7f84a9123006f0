"""The Messages API. Events and messages are checked by Anthropic's own models, and the order of
events by a state machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.long.api_conformance.answer import Answer
from tests.long.api_conformance.case import Case
from tests.support.apis.messages_api import accumulated, check_message
from tests.support.apis.typed_events import read_events

CHOICES = {"none": "none", "auto": "auto", "required": "any", "named": "tool"}


class Messages:
    name = "Messages"
    path = "/v1/messages"
    exact = False
    streaming: Mapping[str, Any] = {"stream": True}

    def request(self, case: Case) -> dict[str, Any]:
        system = [each["content"] for each in case.messages if each["role"] == "system"]
        body = {
            **case.common,
            "messages": [each for each in case.messages if each["role"] != "system"],
            "max_tokens": case.max_tokens,
            "tools": [_tool(tool, eager=case.eager) for tool in case.tools],
            "tool_choice": _choice(case),
        }
        if system:
            body["system"] = system[0]
        if case.think is not None:
            body["thinking"] = {"type": "adaptive" if case.think else "disabled"}
        return body

    def whole(self, data: bytes) -> Answer:
        body = json.loads(data)
        check_message(body)
        return _answer(body)

    def streamed(self, data: bytes) -> Answer:
        return _answer(accumulated(read_events(data)))

    def reason(self, case: Case, answer: Answer) -> str:
        if answer.cut:
            return "max_tokens"
        return "tool_use" if answer.calls else "end_turn"

    def shows_reasoning(self, case: Case) -> bool:
        return case.think is True


def _tool(function: Mapping[str, Any], *, eager: bool) -> dict[str, Any]:
    tool = {
        "name": function["name"],
        "description": function["description"],
        "input_schema": function["parameters"],
    }
    return tool | ({"eager_input_streaming": True} if eager else {})


def _choice(case: Case) -> dict[str, Any]:
    choice: dict[str, Any] = {"type": CHOICES[case.choice]}
    if case.choice == "named":
        choice["name"] = case.named
    if case.choice != "none":
        choice["disable_parallel_tool_use"] = not case.parallel
    return choice


def _answer(body: Mapping[str, Any]) -> Answer:
    """A message has no call that was cut."""

    def text(kind: str, member: str) -> str:
        return "".join(block[member] for block in body["content"] if block["type"] == kind)

    calls = [block for block in body["content"] if block["type"] == "tool_use"]
    for block in body["content"]:
        if block["type"] == "thinking":
            assert block["signature"], "a thinking block has a signature"
    usage = body["usage"]
    return Answer(
        text("text", "text"),
        text("thinking", "thinking"),
        tuple((call["name"], json.dumps(call["input"])) for call in calls),
        (True,) * len(calls),
        body["stop_reason"] == "max_tokens",
        (usage["input_tokens"] + usage["cache_read_input_tokens"], usage["output_tokens"]),
        body["stop_reason"],
    )
