"""Chat completions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.long.api_conformance.answer import Answer
from tests.long.api_conformance.case import Case
from tests.long.fuzz.apis.chat import joined


class Chat:
    name = "chat completions"
    path = "/v1/chat/completions"
    exact = True
    streaming: Mapping[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}

    def request(self, case: Case) -> dict[str, Any]:
        named = {"type": "function", "function": {"name": case.named}}
        body = {
            **case.common,
            "messages": case.messages,
            "max_tokens": case.max_tokens,
            "tools": [{"type": "function", "function": tool} for tool in case.tools],
            "tool_choice": named if case.choice == "named" else case.choice,
            "parallel_tool_calls": case.parallel,
        }
        if case.think is not None:
            body["chat_template_kwargs"] = {"enable_thinking": case.think}
        return body

    def whole(self, data: bytes) -> Answer:
        [answer] = answers_of(json.loads(data))
        return answer

    def streamed(self, data: bytes) -> Answer:
        [answer] = answers_of(joined(data))
        return answer

    def reason(self, case: Case, answer: Answer) -> str:
        if answer.cut:
            return "length"
        return "tool_calls" if answer.calls and case.choice != "named" else "stop"

    def shows_reasoning(self, case: Case) -> bool:
        return True


def answers_of(body: Mapping[str, Any]) -> list[Answer]:
    """The answer of each choice. All have the usage of the response."""
    return [_answer(choice, body["usage"]) for choice in body["choices"]]


def _answer(choice: Mapping[str, Any], usage: Mapping[str, int]) -> Answer:
    message = choice["message"]
    calls = [call["function"] for call in message.get("tool_calls") or []]
    was_cut = (choice.get("toolgate") or {}).get("last_call") == "cut"
    return Answer(
        message.get("content") or "",
        message.get("reasoning_content") or "",
        tuple((call["name"], call["arguments"]) for call in calls),
        tuple(not (was_cut and call is calls[-1]) for call in calls),
        choice["finish_reason"] == "length",
        (usage["prompt_tokens"], usage["completion_tokens"]),
        choice["finish_reason"],
    )
