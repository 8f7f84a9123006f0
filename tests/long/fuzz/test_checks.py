"""The fuzzer (tests/long/fuzz) and the judge of the other long tests report broken answers."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from tests.long.fuzz.checks import DRAWN, Request, check_response, own_violations
from tests.long.fuzz.run import MAKERS
from tests.long.judgement import all_violations
from tests.support.apis import messages_api, replies, responses_api
from tests.support.apis.chat_events import events
from tests.support.effort import repeats
from tests.support.servers.script import call
from toolgate_core.errors import InvalidRequest
from toolgate_proxy.api.chat_completions.parameters import PARAMETERS as CHAT
from toolgate_proxy.api.chat_completions.surface import ChatCompletions
from toolgate_proxy.api.messages.parameters import PARAMETERS as MESSAGES
from toolgate_proxy.api.messages.surface import Messages
from toolgate_proxy.api.responses.parameters import PARAMETERS as RESPONSES
from toolgate_proxy.api.responses.surface import Responses
from toolgate_proxy.api.shared.parameter import Parameter
from toolgate_proxy.api.surface import Surface
from toolgate_verify.asking.ask import Ask
from toolgate_verify.reading.answer import Answer, Call, Usage
from toolgate_verify.terms import Api
from toolgate_verify.tools.tool import Tool

SCHEMA = {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}
FUNCTION = {"name": "look", "parameters": SCHEMA}
MEANING = {
    "max_tokens": 100,
    "tools": [{"type": "function", "function": FUNCTION}],
    "tool_choice": "auto",
}
TEXT = "<think>\nhm\n</think>\n\nI look.\n" + call("look", {"a": 1})
Body = dict[str, Any]


def message() -> tuple[list[Body], Body]:
    asked = messages_api.parsed(
        tools=[{"name": "look", "input_schema": SCHEMA}], thinking={"type": "adaptive"}
    )
    return messages_api.streamed_and_whole(asked, events(TEXT))


def response() -> tuple[list[Body], Body]:
    asked = responses_api.parsed(tools=[{"type": "function", **FUNCTION}])
    return responses_api.streamed_and_whole(asked, events(TEXT))


def sent(made: list[Body]) -> bytes:
    return "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in made).encode()


def found(body: Body, **asked: Any) -> list[str]:
    """What the fuzzer finds in a message."""
    request = Request({"thinking": {"type": "adaptive"}, **asked}, MEANING)
    [made] = replies.read(Api.MESSAGES, json.dumps(body).encode(), streamed=False)
    return check_response([made], request) + own_violations(Api.MESSAGES, made, request)


def test_nothing_is_found_in_a_right_answer() -> None:
    made, body = message()
    assert found(body) == []
    [read] = replies.read(Api.MESSAGES, sent(made), streamed=True)
    assert read.body == body
    made, body = response()
    [read] = replies.read(Api.RESPONSES, sent(made), streamed=True)
    assert read.body["output"] == body["output"]


@pytest.mark.parametrize(
    ("change", "asked", "expected"),
    [
        (lambda body: body | {"stop_reason": "end_turn"}, {}, "stop_reason end_turn with 1 calls"),
        (lambda body: body, {"thinking": {"type": "disabled"}}, "thinking that was not asked for"),
        (lambda body: _with(body, 2, input={"a": "x"}), {}, "is not of type 'number'"),
        (lambda body: _with(body, 2, name="walk"), {}, "not allowed: walk"),
        (lambda body: _with(body, 1, text="<tool_call>"), {}, "markup in content: <tool_call>"),
        (lambda body: _with(body, 0, signature=""), {}, "thinking without a signature"),
    ],
)
def test_a_broken_message_is_found(
    change: Callable[[Body], Body], asked: Body, expected: str
) -> None:
    assert any(expected in each for each in found(change(message()[1]), **asked))


def _with(body: Body, at: int, **changed: Any) -> Body:
    content = [
        block | changed if place == at else block for place, block in enumerate(body["content"])
    ]
    return body | {"content": content}


@pytest.mark.parametrize("api", [Api.MESSAGES, Api.RESPONSES])
@pytest.mark.parametrize("lost", [0, 3, -2, -1])
def test_a_stream_without_one_of_its_events_is_found(api: Api, lost: int) -> None:
    made, _ = message() if api == Api.MESSAGES else response()
    del made[lost]
    with pytest.raises((AssertionError, ValueError, LookupError)):
        replies.read(api, sent(made), streamed=True)


CASE = Ask(
    tools=(Tool("look", "Looks.", SCHEMA),),
    choice="required",
    parallel=False,
    reasoning="medium",
    max_tokens=100,
    extra={"toolgate": {"repetition_guard": False}},  # which could cut a response
)
CALL = Call("1", "look", '{"a": 1}')
RIGHT = Answer(reasoning="hm", calls=[CALL], finish="calls", usage=Usage(9, 9))


def test_the_judge_finds_nothing_in_a_right_answer() -> None:
    assert [*all_violations(Api.MESSAGES, CASE, RIGHT)] == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"calls": [], "finish": "stop"}, "no call although required"),
        ({"calls": [Call("1", "look", "{}")]}, "arguments violate the schema"),
        ({"calls": [Call("1", "walk", "{}")]}, "call of a tool that is not allowed"),
        ({"calls": [CALL, CALL]}, "more than one call"),
        (
            {"calls": [dataclasses.replace(CALL, complete=False)]},
            "incomplete call of a complete response",
        ),
        ({"finish": "stop"}, "wrong reason of the end"),
        ({"text": "</think>"}, "markup in content"),
        ({"usage": Usage(9, 101)}, "implausible usage"),
        ({"usage": None}, "implausible usage"),
        ({"finish": "length"}, "cut before the maximum"),
    ],
)
def test_the_judge_finds_a_broken_answer(changed: dict[str, Any], expected: str) -> None:
    answer = dataclasses.replace(RIGHT, **changed)
    assert expected in [kind for kind, _ in all_violations(Api.MESSAGES, CASE, answer)]


REQUESTS = repeats(1000, nightly=2000)
PATH = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*|\[\d+\]|\[\".*?\"\])*")
STEP = re.compile(r"\[\".*?\"\]|\w+")
SURFACES: dict[Api, Surface] = {
    Api.CHAT: ChatCompletions(),
    Api.RESPONSES: Responses(),
    Api.MESSAGES: Messages(),
}
TABLES: dict[Api, Sequence[Parameter]] = {
    Api.CHAT: CHAT,
    Api.RESPONSES: RESPONSES,
    Api.MESSAGES: MESSAGES,
}


def outcome(surface: Surface, request: Request) -> str:
    try:
        surface.parse(json.loads(json.dumps(request.body)), model="tiny")
    except InvalidRequest as error:
        return error.param or "no parameter"
    return "valid"


def is_path(param: str, body: dict[str, Any]) -> bool:
    """Whether `param` leads to a value of the request, or to a field that is missing there."""
    if not PATH.fullmatch(param):
        return False
    value: Any = body
    *parents, _ = STEP.findall(param)
    for step in parents:
        try:
            value = value[int(step)] if isinstance(value, list) else value[step]
        except (LookupError, TypeError, ValueError):
            return False
    return True


def drawn(api: Api, number: int) -> Request:
    return MAKERS[api](Random(number), "tiny", {"5": 100.0})


@pytest.mark.exhaustive
@pytest.mark.parametrize("api", Api)
def test_fuzzed_requests_are_valid_unless_marked(api: Api) -> None:
    found: Counter[str] = Counter()
    for number in range(REQUESTS):
        request = drawn(api, number)
        result = outcome(SURFACES[api], request)
        if request.invalid:
            assert request.invalid in result, request.body
        elif request.wrong:
            assert result != "no parameter", request.body
        else:
            assert result == "valid", request.body
        found["invalid" if request.invalid else result] += 1
    assert found["invalid"] > REQUESTS / 100
    assert REQUESTS / 2 < found["valid"] < REQUESTS


@pytest.mark.exhaustive
@pytest.mark.parametrize("api", Api)
def test_param_of_a_refusal_is_a_path_in_the_request(api: Api) -> None:
    refused = 0
    for number in range(REQUESTS):
        request = drawn(api, number)
        param = outcome(SURFACES[api], request)
        if param not in ("valid", "no parameter"):
            assert is_path(param, request.body), (param, request.body)
            refused += 1
    assert refused > REQUESTS / 100


@pytest.mark.parametrize("param", ["/messages/0", "messages.0.content", "tools[3].name", "a b", ""])
def test_other_notations_are_no_paths(param: str) -> None:
    assert not is_path(param, {"messages": [{"content": "x"}], "tools": []})


@pytest.mark.parametrize("api", Api)
def test_every_sampling_parameter_is_fuzzed(api: Api) -> None:
    sent = {name for number in range(REQUESTS) for name in drawn(api, number).body}
    assert {row.name for row in TABLES[api] if row.sampling} - DRAWN < sent
