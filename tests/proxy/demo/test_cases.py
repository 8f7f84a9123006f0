"""The demo's cases, the checks of their responses, and its tool loop."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from tests.proxy.demo.conftest import ScriptedServer
from toolgate_proxy.demo.cases import Case, ChoiceOutput, cases, properties
from toolgate_proxy.demo.model import directory
from toolgate_proxy.demo.run import Demo, uses_results

BEIJING, SHANGHAI = ('{"city": "Beijing"}', '{"city": "Shanghai"}')
CORRECT = {
    "two cities, parallel calls": ChoiceOutput(
        calls=[("get_weather", BEIJING), ("get_weather", SHANGHAI)]
    ),
    "parallel_tool_calls=False": ChoiceOutput(calls=[("get_weather", BEIJING)]),
    'reasoning_effort="high"': ChoiceOutput(
        calls=[("open_ticket", '{"code": "WEB-2143", "priority": "high"}')]
    ),
    'tool_choice="none"': ChoiceOutput(content="I may not call a tool now."),
    "the named function return_json": ChoiceOutput(
        calls=[("return_json", '{"answer": "yes", "confidence": 0.9}')]
    ),
    "an array of exactly 3 strings of at most 6 characters": ChoiceOutput(
        calls=[("set_tags", '{"tags": ["fast", "red", "sports"]}')]
    ),
}
WRONG = (
    ChoiceOutput(),
    ChoiceOutput(content="no end"),
    ChoiceOutput(calls=[("get_weather", SHANGHAI)]),
    ChoiceOutput(calls=[("return_json", '{"answer": "no", "confidence": 1}')]),
    ChoiceOutput(calls=[("set_tags", '{"tags": ["a", "b", "c"]}')]),
    ChoiceOutput(calls=[("get_weather", '{"city"')], finish_reason="length"),
)
REQUIRED, NONE = (
    {each.request["tool_choice"]: each.request for each in cases() if each.title == title}[choice]
    for title, choice in (("parallel_tool_calls=False", "required"), ('tool_choice="none"', "none"))
)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.title)
def test_only_correct_outputs_are_right_answers(case: Case) -> None:
    assert case.understood(CORRECT[case.title])
    assert not any(case.understood(wrong) for wrong in WRONG)


def called(*arguments: str, name: str = "get_weather", **more: Any) -> ChoiceOutput:
    calls = [(name, each) for each in arguments]
    return ChoiceOutput(calls=calls, finish_reason="tool_calls", **more)


@pytest.mark.parametrize(
    ("output", "violated"),
    [
        (called(BEIJING), set()),
        (called(BEIJING, SHANGHAI), {"at most one call"}),
        (called("{}"), {"all calls are valid"}),
        (called('{"city"'), {"all calls are valid"}),
        (called(BEIJING, name="other"), {"all calls are valid"}),
        (called(BEIJING, content="<tool_call>"), {"no markup in the content"}),
        (called(BEIJING, reasoning="<think>"), {"no markup in the reasoning"}),
        (ChoiceOutput(content="No.", finish_reason="stop"), {"at least one call"}),
        (
            ChoiceOutput(content="No.", finish_reason="tool_calls"),
            {"at least one call", "correct finish_reason"},
        ),
        (ChoiceOutput(calls=[("get_weather", '{"ci')], finish_reason="length"), set()),
    ],
)
def test_violated_properties_are_named(output: ChoiceOutput, violated: set[str]) -> None:
    found = properties(REQUIRED, output)
    assert {name for name, holds in found.items() if not holds} == violated


def test_a_call_is_against_tool_choice_none() -> None:
    assert not properties(NONE, called(BEIJING))["no call"]


def test_a_property_of_what_the_output_does_not_have_is_left_out() -> None:
    silent = properties(REQUIRED, ChoiceOutput(content="Hello.", finish_reason="stop"))
    assert "all calls are valid" not in silent
    assert silent["no markup in the content"]
    assert "no markup in the content" not in properties(REQUIRED, called(BEIJING))


def test_response_of_the_tool_loop_must_use_both_results() -> None:
    content = "For Beijing, it is 21 celsius and clear. For Shanghai, it is 25 celsius and cloudy."
    assert uses_results(content)
    assert not uses_results(content.replace("25", "24"))
    assert not uses_results(content.rstrip("."))


def test_the_tool_loop_sends_back_the_calls_with_their_results(
    serve: Callable[[ScriptedServer], ScriptedServer],
) -> None:
    calls = [
        {
            "id": f"call_{at}",
            "type": "function",
            "function": {"name": "get_weather", "arguments": a},
        }
        for at, a in enumerate((BEIJING, SHANGHAI))
    ]
    answer = "For Beijing, it is 21 celsius and clear. For Shanghai, it is 25 and cloudy."

    def answered(body: dict[str, Any]) -> list[dict[str, Any]]:
        first = len(body["messages"]) == 1
        message = {"content": None, "tool_calls": calls} if first else {"content": answer}
        return [{"message": {"role": "assistant", **message}}]

    server = serve(ScriptedServer(answered))
    stack: Any = SimpleNamespace(url=server.url, master_key="sk", model="m")
    output = io.StringIO()
    assert Demo(stack, str(directory()), Console(file=output, width=100)).loop() == 0
    assert "✓ the response uses both results" in output.getvalue()
    sent = server.requests[1]["messages"]
    results = [each for each in sent if each["role"] == "tool"]
    assert [each["tool_call_id"] for each in results] == ["call_0", "call_1"]
    assert [json.loads(each["content"])["temperature"] for each in results] == [21, 25]
