"""Hostile calls: their requests, and what is found wrong with the responses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from itertools import islice
from random import Random
from typing import Any

import httpx
import pytest

from tests.long.hostile_calls import run
from tests.long.hostile_calls.load import ANSWERS, Load, biases, body_of, make_case, tool_set
from tests.long.outcomes import Outcome
from tests.models import tiny_model
from toolgate_core.dialects.registry import DIALECTS
from toolgate_verify.terms import Api

Handler = Callable[[httpx.Request, dict[str, Any]], httpx.Response]


def test_all_families_come_with_both_adapters() -> None:
    drawn = [run.settings(seed) for seed in range(2 * len(run.FAMILIES))]
    assert len(set(drawn)) == len(drawn)
    assert {family for family, _ in drawn} == {n for n, each in DIALECTS.items() if each.calls}


def test_the_families_can_be_limited() -> None:
    wanted = run.FAMILIES[3], run.FAMILIES[1]
    seeds = [*islice(run.seeds_of(wanted, first=2), 4)]
    assert seeds[0] >= 2
    assert len({run.settings(seed) for seed in seeds}) == 4
    assert {run.settings(seed)[0] for seed in seeds} == {*wanted}


def test_the_biases_are_different() -> None:
    drawn = biases(DIALECTS["qwen3"], tiny_model())
    assert all(drawn)
    assert len({json.dumps(each) for each in drawn}) == 3


@pytest.mark.parametrize("api", Api)
def test_requests_are_repeated_exactly(api: Api) -> None:
    bodies = []
    for _ in range(2):
        rng = Random(1)
        sets = [tool_set(rng) for _ in range(20)]
        cases = [(make_case(rng, offered, "m", {"1": 2.0}), later) for offered, later in sets]
        bodies.append([body_of(api, case, later) for case, later in cases])
    assert bodies[0] == bodies[1]
    assert len({json.dumps(body) for body in bodies[0]}) == 20


def test_a_search_can_have_found_the_tools_of_all_requests() -> None:
    rng = Random(1)
    sets = [tool_set(rng, found=True) for _ in range(20)]
    assert all(later and len(offered) > 1 for offered, later in sets)


def outcome_of(answer: Handler) -> Outcome:
    """The outcome of one set of tools with a gateway that answers so."""

    def handle(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        if request.url.path == "/toolgate/schema":
            reports = [{"name": tool["function"]["name"]} for tool in body["tools"]]
            engines = [{**each, "engine": "xgrammar"} for each in reports]
            return httpx.Response(200, json={"backends": [{"tools": engines}]})
        return answer(request, body)

    outcome = Outcome(2)

    async def send() -> None:
        transport = httpx.MockTransport(handle)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
            await Load(http, "m", [{}], ["<mark>"], outcome).run(1, 4)

    asyncio.run(send())
    return outcome


@pytest.mark.parametrize("code", ["schema_too_complex", "max_tokens_too_small"])
def test_right_refusals_are_counted(code: str) -> None:
    outcome = outcome_of(lambda *_: httpx.Response(400, json={"error": {"code": code}}))
    assert outcome.violations == []
    assert outcome.counts[f"refused: {code}"] == outcome.counts["requests"] == 15


def test_requests_that_are_given_up_are_counted() -> None:
    error = {"error": {"code": "tool_schema_violation"}}
    outcome = outcome_of(lambda *_: httpx.Response(500, json=error))
    assert (outcome.violations, outcome.counts["given up"]) == ([], 15)


@pytest.mark.parametrize("status", [400, 500, 503])
def test_other_errors_are_violations(status: int) -> None:
    outcome = outcome_of(lambda *_: httpx.Response(status, json={"error": {"code": "other"}}))
    assert len(outcome.violations) == 15


def test_calls_are_validated_and_counted_by_engine() -> None:
    def answer(request: httpx.Request, body: dict[str, Any]) -> httpx.Response:
        if request.url.path != "/v1/chat/completions" or body.get("stream"):
            return httpx.Response(500, json={"error": {"code": "tool_schema_violation"}})
        name = body["tools"][0]["function"]["name"]
        call = {"function": {"name": name, "arguments": '{"none": "of these"}'}}
        message = {"content": "<mark>", "tool_calls": [call]}
        choice = {"message": message, "finish_reason": "tool_calls"}
        choices = [{"index": at, **choice} for at in range(body["n"])]
        usage = {"prompt_tokens": 1, "completion_tokens": 5 * body["n"], "total_tokens": 61}
        return httpx.Response(200, json={"choices": choices, "usage": usage})

    outcome = outcome_of(answer)
    answered = 15 - outcome.counts["given up"]
    calls = outcome.counts["calls: complete"]
    assert outcome.counts["calls: xgrammar"] == calls == answered * ANSWERS > 0
    assert len(outcome.violations) == answered
    assert all("markup in content" in each for each in outcome.violations)
