"""The demo's comparison counts what the servers answer, both ways, by the same rules."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from openai import OpenAI
from rich.console import Console

from tests.proxy.demo.conftest import ScriptedServer
from toolgate_proxy.demo import comparison
from toolgate_proxy.demo.hard_tool import REQUESTS, SAMPLES

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
    line = f'✗ alone ({invalid} of {SAMPLES}): /properties/due "tomorrow" is not a date-time'
    assert output.count(line) == (len(REQUESTS) if invalid else 0)
    assert f"{valid}/{every}" in output


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
