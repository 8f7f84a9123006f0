"""The demo's comparison counts what the servers answer, both ways, by the same rules."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from openai import OpenAI
from rich.console import Console

from tests.proxy.demo.conftest import ScriptedServer
from toolgate_proxy.demo import comparison
from toolgate_proxy.demo.cases import cases
from toolgate_proxy.demo.comparison import REQUESTS, SAMPLES, problem_of_raw, unconstrained_outputs

VALID = '{"code": "OPS-318"}'
INVALID = '{"code": "OPS-318", "due": "tomorrow"}'
Serve = Callable[[ScriptedServer], ScriptedServer]


def raw_choice(arguments: str) -> dict[str, Any]:
    call = f'{{"name": "open_ticket", "arguments": {arguments}}}'
    return {"message": {"content": f"<tool_call>\n{call}\n</tool_call>"}}


def call_choice(arguments: str) -> dict[str, Any]:
    function = {"name": "open_ticket", "arguments": arguments}
    calls = [{"id": "call_1", "type": "function", "function": function}]
    return {"message": {"role": "assistant", "content": None, "tool_calls": calls}}


def invalid_first(
    invalid: int, choice: Callable[[str], dict[str, Any]]
) -> Callable[[dict[str, Any]], list[dict[str, Any]]]:
    return lambda body: [choice(INVALID if i < invalid else VALID) for i in range(body["n"])]


def compare(
    serve: Serve, vllm: ScriptedServer, gateway: ScriptedServer
) -> tuple[int, str, comparison.Samples]:
    """The number of failures, the output, and the samples."""
    serve(vllm)
    serve(gateway)
    stack: Any = SimpleNamespace(
        url=gateway.url, backend_url=vllm.url, backend_key="secret", model="m"
    )
    output = io.StringIO()
    with OpenAI(base_url=f"{gateway.url}/v1", api_key="sk-1", max_retries=0) as client:
        samples = comparison.sample(stack, client, {"model": "m", "seed": 3})
    failed = comparison.show(samples, Console(file=output, width=120))
    return failed, output.getvalue(), samples


@pytest.mark.parametrize("invalid", [0, 3, SAMPLES])
def test_invalid_samples_of_the_model_alone_are_counted_and_shown_where_they_break(
    serve: Serve, invalid: int
) -> None:
    vllm = ScriptedServer(invalid_first(invalid, raw_choice))
    failed, output, samples = compare(serve, vllm, ScriptedServer(invalid_first(0, call_choice)))
    every = len(REQUESTS) * SAMPLES
    valid = every - invalid * len(REQUESTS)
    assert failed == 0
    assert (
        comparison.summary(samples)
        == f"alone {valid}/{every} valid · Toolgate {every}/{every} valid"
    )
    line = (
        f'✗ alone ({invalid} of {SAMPLES}): /properties/due/format "tomorrow" is not a "date-time"'
    )
    assert output.count(line) == (len(REQUESTS) if invalid else 0)
    assert comparison.summary(samples) in output


def test_an_invalid_response_of_the_gateway_is_a_failure(serve: Serve) -> None:
    gateway = ScriptedServer(invalid_first(1, call_choice))
    failed, output, _ = compare(serve, ScriptedServer(invalid_first(0, raw_choice)), gateway)
    assert failed == len(REQUESTS)
    assert f"✗ Toolgate (1 of {SAMPLES}): /properties/due" in output


def test_a_response_of_the_gateway_without_a_valid_json_call_is_a_failure(serve: Serve) -> None:
    silent = {"message": {"role": "assistant", "content": "no"}}
    gateway = ScriptedServer(lambda body: [silent, call_choice('{"code"')] * (body["n"] // 2))
    failed, output, _ = compare(serve, ScriptedServer(invalid_first(0, raw_choice)), gateway)
    assert failed == len(REQUESTS) * SAMPLES
    assert "there is no call" in output
    assert "the call is not JSON" in output


def test_both_ways_sample_the_same_requests(serve: Serve) -> None:
    vllm = ScriptedServer(invalid_first(0, raw_choice))
    gateway = ScriptedServer(invalid_first(0, call_choice))
    compare(serve, vllm, gateway)

    def sampled(script: ScriptedServer) -> list[str]:
        names = ("messages", "tools", "temperature", "max_tokens", "n", "seed", "model")
        return sorted(json.dumps([each[name] for name in names]) for each in script.requests)

    assert sampled(vllm) == sampled(gateway)
    assert {each["temperature"] for each in vllm.requests} == {1}


@pytest.mark.parametrize(
    ("dialect", "possible"), [("qwen3", True), ("hermes", True), ("glm45", False)]
)
def test_raw_text_of_other_dialects_is_not_compared(
    serve: Serve, dialect: str, possible: bool
) -> None:
    vllm = serve(ScriptedServer(lambda _: [], dialect=dialect))
    stack: Any = SimpleNamespace(backend_url=vllm.url, backend_key="secret")
    assert comparison.is_possible(stack) is possible


RAW = "<think>\n\n</think>\n\n<tool_call>x</tool_call>"


def stack_at(server: ScriptedServer) -> Any:
    return SimpleNamespace(backend_url=server.url, backend_key="secret", model="m")


def test_unconstrained_request_has_the_same_prompt_without_enforcement(serve: Serve) -> None:
    vllm = serve(ScriptedServer(lambda _: [{"message": {"content": f"{RAW}<|im_end|>"}}]))
    named = next(case.request for case in cases() if "return_json" in case.title)
    request = {**named, "temperature": 0, "max_tokens": 9, "parallel_tool_calls": False}
    assert unconstrained_outputs(stack_at(vllm), request) == [RAW]
    [body] = vllm.requests
    assert body["path"] == "/v1/chat/completions"
    assert body["key"] == "Bearer secret"
    assert body["messages"] == named["messages"]
    assert body["tools"] == named["tools"]
    assert body["tool_choice"] == "none"
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert "parallel_tool_calls" not in body
    assert (body["temperature"], body["max_tokens"]) == (0, 9)


def test_error_responses_of_the_backend_raise(serve: Serve) -> None:
    vllm = serve(ScriptedServer(lambda _: [], status=404))
    with pytest.raises(httpx.HTTPStatusError):
        unconstrained_outputs(stack_at(vllm), {"messages": [], "tools": []})


CODE = {"code": "WEB-2143"}


def raw(*calls: Any) -> str:
    return "\n".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in calls)


def ticket(**arguments: Any) -> dict[str, Any]:
    return {"name": "open_ticket", "arguments": arguments}


@pytest.mark.parametrize(
    "arguments",
    [
        CODE,
        {**CODE, "priority": "high", "due": "2026-03-02T09:00:00Z", "labels": ["auth", "web"]},
        {**CODE, "contact": None},
        {**CODE, "contact": {"name": "Anna", "channel": "sms"}},
    ],
)
def test_valid_calls_have_no_problem(arguments: dict[str, Any]) -> None:
    assert problem_of_raw(raw(ticket(**arguments), ticket(**CODE))) == ""
    assert problem_of_raw(f"<think>\n\n</think>\n\n{raw(ticket(**arguments))}") == ""


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({"code": "web"}, "/properties/code/pattern"),
        ({**CODE, "priority": "urgent"}, "/properties/priority/enum"),
        ({**CODE, "due": "tomorrow"}, "/properties/due/format"),
        ({**CODE, "labels": ["one"]}, "/properties/labels/minItems"),
        ({**CODE, "labels": ["one", "two", "three"]}, "/properties/labels/maxItems"),
        ({**CODE, "contact": {"name": "Anna"}}, "/properties/contact/anyOf"),
        ({"priority": "low"}, "/required"),
        ({**CODE, "date": "now"}, "/additionalProperties"),
        ([], "/type"),
    ],
)
def test_violations_name_their_place_in_the_schema(arguments: Any, place: str) -> None:
    text = raw(ticket(**CODE), {"name": "open_ticket", "arguments": arguments})
    assert problem_of_raw(text).startswith(f"{place} ")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Which ticket?", "there is no call"),
        ("", "there is no call"),
        ("<tool_call>\n{]\n</tool_call>", "the call is not JSON"),
        (raw(ticket(**CODE)) + '\n<tool_call>\n{"name": "open_ticket"', "the last call has no end"),
        (raw({"arguments": CODE}), "a call has no name"),
        (raw({"name": "close_ticket", "arguments": CODE}), "there is no tool 'close_ticket'"),
        (raw({"name": "open_ticket"}), "/type"),
    ],
)
def test_text_that_is_no_valid_call_is_a_problem(text: str, problem: str) -> None:
    assert problem_of_raw(text).startswith(problem)
