"""Answers are read in one form, also from the forms of calls that only one API has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolgate_verify.exchange import Exchange, Request
from toolgate_verify.reading import read
from toolgate_verify.reading.answer import Answer, Call
from toolgate_verify.terms import Api

Json = dict[str, Any]
CUSTOM = {
    "type": "custom_tool_call",
    "call_id": "call_1",
    "namespace": "files",
    "name": "write",
    "input": "a b",
    "status": "completed",
}
LEGACY = {"name": "look", "arguments": '{"a": 1}'}


def read_whole(api: Api, body: Json) -> Answer:
    return read(api, Exchange(Request("/"), 200, {}, json.dumps(body)))


def read_stream(api: Api, *events: Json) -> Answer:
    text = "".join(f"data: {json.dumps(each)}\n\n" for each in events)
    return read(api, Exchange(Request("/", {"stream": True}), 200, {}, text))


def answers_with_a_custom_call() -> list[Answer]:
    response = {"status": "completed", "output": [CUSTOM]}
    begun = {**CUSTOM, "input": "", "status": "in_progress"}
    delta = {"type": "response.custom_tool_call_input.delta", "output_index": 0}
    return [
        read_whole(Api.RESPONSES, response),
        read_stream(
            Api.RESPONSES,
            {"type": "response.output_item.added", "output_index": 0, "item": begun},
            {**delta, "delta": "a "},
            {**delta, "delta": "b"},
            {"type": "response.output_item.done", "output_index": 0, "item": CUSTOM},
            {"type": "response.completed", "response": response},
        ),
    ]


def answers_with_a_function_call() -> list[Answer]:
    def chunk(finish: str | None = None, **delta: Any) -> Json:
        return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    message = {"content": None, "function_call": LEGACY}
    return [
        read_whole(Api.CHAT, {"choices": [{"message": message, "finish_reason": "function_call"}]}),
        read_stream(
            Api.CHAT,
            chunk(function_call={"name": "look", "arguments": ""}),
            chunk(function_call={"arguments": '{"a"'}),
            chunk(function_call={"arguments": ": 1}"}),
            chunk("function_call"),
        ),
    ]


@pytest.mark.parametrize("answer", answers_with_a_custom_call(), ids=["whole", "streamed"])
def test_a_call_of_a_custom_tool_has_its_input(answer: Answer) -> None:
    assert answer.calls == [Call("call_1", "files.write", "a b", custom=True)]
    assert answer.finish == "calls"


@pytest.mark.parametrize("answer", answers_with_a_function_call(), ids=["whole", "streamed"])
def test_a_function_call_is_a_call_without_an_id(answer: Answer) -> None:
    assert answer.calls == [Call("", "look", '{"a": 1}')]
    assert answer.finish == "calls"
