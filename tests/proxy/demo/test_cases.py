"""Correctness checks of the demo, and its requests for unconstrained output."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from rich.console import Console

from tests.proxy.demo.conftest import ScriptedServer
from toolgate_proxy.demo import tool_loop
from toolgate_proxy.demo.cases import Case, cases
from toolgate_proxy.demo.properties import ChoiceOutput, satisfies
from toolgate_proxy.demo.show import count_violated
from toolgate_proxy.demo.unconstrained import unconstrained_output

BEIJING, SHANGHAI = ('{"city": "Beijing"}', '{"city": "Shanghai"}')
CORRECT = {
    "two cities, parallel calls": ChoiceOutput(
        calls=[("get_weather", BEIJING), ("get_weather", SHANGHAI)]
    ),
    "parallel_tool_calls=False": ChoiceOutput(calls=[("get_weather", BEIJING)]),
    'reasoning_effort="high"': ChoiceOutput(
        calls=[("get_weather", BEIJING), ("get_weather", SHANGHAI)]
    ),
    'tool_choice="none"': ChoiceOutput(content="I may not call a tool now."),
    "the named function return_json": ChoiceOutput(
        calls=[("return_json", '{"answer": "Yes", "confidence": 0.9}')]
    ),
    "an array of exactly 3 strings of at most 6 characters": ChoiceOutput(
        calls=[("set_tags", '{"tags": ["fast", "red", "car"]}')]
    ),
}
WRONG = (
    ChoiceOutput(),
    ChoiceOutput(content="no end"),
    ChoiceOutput(calls=[("get_weather", SHANGHAI)]),
    ChoiceOutput(calls=[("return_json", '{"answer": "no", "confidence": 1}')]),
    ChoiceOutput(calls=[("set_tags", '{"tags": ["a", "b", "c"]}')]),
)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.title)
def test_only_correct_outputs_pass_the_checks(case: Case) -> None:
    assert case.correctness
    correct = CORRECT[case.title]
    assert all(satisfies(correct, check) for check in case.correctness.values())
    for wrong in WRONG:
        assert not all(satisfies(wrong, check) for check in case.correctness.values())


def test_a_property_of_calls_is_not_shown_for_a_response_without_calls() -> None:
    case = next(each for each in cases() if each.request["tool_choice"] == "auto")
    silent = ChoiceOutput(content="Hello.", finish_reason="stop")
    shown = _shown(case, silent, silent)
    assert "calls are valid" not in shown
    assert "no markup in the content" in shown
    assert "correct finish_reason" in shown
    invalid = ChoiceOutput(calls=[("get_weather", "{}")], finish_reason="tool_calls")
    assert "✗ all calls are valid" in _shown(case, invalid, invalid)
    assert "no markup in the content" not in _shown(case, invalid, invalid)


def test_a_property_is_checked_if_one_of_both_forms_has_its_subject() -> None:
    case = next(each for each in cases() if each.request["tool_choice"] == "auto")
    invalid = ChoiceOutput(calls=[("get_weather", "{}")], finish_reason="tool_calls")
    assert "✗ all calls are valid" in _shown(case, ChoiceOutput(finish_reason="stop"), invalid)


def _shown(case: Case, complete: ChoiceOutput, streamed: ChoiceOutput) -> str:
    output = io.StringIO()
    count_violated(case.properties, complete, streamed, Console(file=output, width=100))
    return output.getvalue()


def test_response_of_the_tool_loop_must_use_both_results() -> None:
    content = "For Beijing, it is 21 celsius and clear. For Shanghai, it is 25 celsius and cloudy."
    assert tool_loop.uses_results(content)
    assert not tool_loop.uses_results(content.replace("25", "24"))
    assert not tool_loop.uses_results(content.rstrip("."))


RAW = "<think>\n\n</think>\n\n<tool_call>x</tool_call>"


def test_unconstrained_request_has_the_same_prompt_without_enforcement(
    serve: Callable[[ScriptedServer], ScriptedServer],
) -> None:
    vllm = serve(ScriptedServer(lambda _: [{"message": {"content": f"{RAW}<|im_end|>"}}]))
    named = next(case.request for case in cases() if "return_json" in case.title)
    request = {**named, "temperature": 0, "max_tokens": 9, "parallel_tool_calls": False}
    assert unconstrained_output(vllm.url, "secret", "m", request) == RAW
    [body] = vllm.requests
    assert body["path"] == "/v1/chat/completions"
    assert body["key"] == "Bearer secret"
    assert body["messages"] == named["messages"]
    assert body["tools"] == named["tools"]
    assert body["tool_choice"] == "none"
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert "parallel_tool_calls" not in body
    assert (body["temperature"], body["max_tokens"]) == (0, 9)


def test_error_responses_of_the_backend_raise(
    serve: Callable[[ScriptedServer], ScriptedServer],
) -> None:
    vllm = serve(ScriptedServer(lambda _: [], status=404))
    request: dict[str, Any] = {"messages": [], "tools": []}
    with pytest.raises(httpx.HTTPStatusError):
        unconstrained_output(vllm.url, "secret", "another", request)
