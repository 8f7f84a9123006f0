"""The demo's comparison counts what the servers answer, both ways, by the same rules."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from openai import OpenAI
from rich.console import Console

from tests.proxy.demo.conftest import ScriptedServer
from toolgate_proxy.demo import comparison
from toolgate_proxy.demo.comparison import REQUESTS, SAMPLES

VALID = '{"code": "OPS-318"}'
INVALID = '{"code": "OPS-318", "due": "tomorrow"}'
SEED = 3
Serve = Callable[[ScriptedServer], ScriptedServer]


def judged(invalid: int) -> Callable[[dict[str, Any]], list[dict[str, Any]]]:
    """Return the events of samples, of which the first ones are invalid."""
    begin, end = INVALID.index('"tomorrow"'), len(INVALID) - 1
    broken = {"begin": begin, "end": end, "pointer": "/due", "message": "not a date."}

    def events(body: dict[str, Any]) -> list[dict[str, Any]]:
        breaks = [broken] * (body["seed"] < SEED + invalid)
        return [{"text": INVALID[:9]}, {"text": INVALID[9:]}, {"judgement": judgement(breaks)}]

    return events


def judgement(breaks: list[dict[str, Any]], *, cut: bool = False) -> dict[str, Any]:
    return {"breaks": breaks, "calls": 1, "cut": cut}


def call_choice(arguments: str) -> dict[str, Any]:
    function = {"name": "open_ticket", "arguments": arguments}
    calls = [{"id": "call_1", "type": "function", "function": function}]
    return {"message": {"role": "assistant", "content": None, "tool_calls": calls}}


def invalid_first(
    invalid: int, choice: Callable[[str], dict[str, Any]]
) -> Callable[[dict[str, Any]], list[dict[str, Any]]]:
    return lambda body: [choice(INVALID if i < invalid else VALID) for i in range(body["n"])]


def compare(serve: Serve, gateway: ScriptedServer) -> tuple[int, str, comparison.Samples]:
    """The number of failures, the output, and the samples."""
    serve(gateway)
    stack: Any = SimpleNamespace(url=gateway.url, master_key="secret", model="m")
    output = io.StringIO()
    with OpenAI(base_url=f"{gateway.url}/v1", api_key="sk-1", max_retries=0) as client:
        samples = comparison.sample(stack, client, {"model": "m", "seed": SEED})
    failed = comparison.show(samples, Console(file=output, width=120))
    return failed, output.getvalue(), samples


@pytest.mark.parametrize("invalid", [0, 3, SAMPLES])
def test_invalid_samples_of_the_model_alone_are_counted_and_shown_where_they_break(
    serve: Serve, invalid: int
) -> None:
    gateway = ScriptedServer(invalid_first(0, call_choice), judged(invalid))
    failed, output, samples = compare(serve, gateway)
    every = len(REQUESTS) * SAMPLES
    valid = every - invalid * len(REQUESTS)
    assert failed == 0
    assert (
        comparison.summary(samples)
        == f"alone {valid}/{every} valid · Toolgate {every}/{every} valid"
    )
    line = f'✗ alone ({invalid} of {SAMPLES}): "tomorrow": not a date.'
    assert output.count(line) == (len(REQUESTS) if invalid else 0)
    assert comparison.summary(samples) in output


def test_an_invalid_response_of_the_gateway_is_a_failure(serve: Serve) -> None:
    gateway = ScriptedServer(invalid_first(1, call_choice), judged(0))
    failed, output, _ = compare(serve, gateway)
    assert failed == len(REQUESTS)
    assert f"✗ Toolgate (1 of {SAMPLES}): /properties/due" in output


def test_a_response_of_the_gateway_without_a_valid_json_call_is_a_failure(serve: Serve) -> None:
    silent = {"message": {"role": "assistant", "content": "no"}}
    choices = [silent, call_choice('{"code"')] * (SAMPLES // 2)
    failed, output, _ = compare(serve, ScriptedServer(lambda _: choices, judged(0)))
    assert failed == len(REQUESTS) * SAMPLES
    assert "there is no call" in output
    assert "the call is not JSON" in output


def test_both_ways_sample_the_same_requests(serve: Serve) -> None:
    gateway = ScriptedServer(invalid_first(0, call_choice), judged(0))
    compare(serve, gateway)
    left_out = ("path", "key", "seed", "n", "toolgate")
    sampled = Counter(
        json.dumps({name: each[name] for name in sorted(each) if name not in left_out})
        for each in gateway.requests
    )
    assert [*sampled.values()] == [SAMPLES + 1] * len(REQUESTS)
    assert {each["temperature"] for each in gateway.requests} == {1}
    assert {each["seed"] for each in gateway.requests} == {*range(SEED, SEED + SAMPLES)}


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ([{"judgement": judgement([], cut=True)}], "max_tokens ended the response"),
        ([{"error": {"message": "no"}}], httpx.HTTPError),
        ([], httpx.HTTPError),
        (404, httpx.HTTPStatusError),
    ],
)
def test_an_output_without_an_end_is_a_problem(serve: Serve, events: Any, problem: Any) -> None:
    status, sent = (events, []) if isinstance(events, int) else (200, events)
    gateway = serve(ScriptedServer(lambda _: [], lambda _: sent, status))
    stack: Any = SimpleNamespace(url=gateway.url, master_key="secret", model="m")
    if isinstance(problem, str):
        assert comparison.unconstrained(stack, {"messages": []}) == ("", problem)
    else:
        with pytest.raises(problem):
            comparison.unconstrained(stack, {"messages": []})
    assert gateway.requests[0]["key"] == "Bearer secret"
