"""The Messages API through the whole stack: the answers of the other APIs, and exact counts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests import tools
from tests.gateway.servers import Gateway
from tests.long.api_conformance.cases import tool_of
from tests.long.api_conformance.evaluation import Evaluation
from tests.support.servers.http_client import bearer, http_client
from toolgate_verify.asking import messages
from toolgate_verify.asking.ask import Ask, User
from toolgate_verify.terms import Api

OFFERED = tuple(tool_of({"description": "", **tool["function"]}) for tool in tools.ALL)
TOOLS = [messages.tool(tool, strict=None) for tool in OFFERED]


@pytest.fixture
def http(gateway: Gateway) -> Iterator[httpx.Client]:
    headers = bearer(gateway.key)
    with httpx.Client(base_url=gateway.url, headers=headers, timeout=300, verify=False) as http:
        yield http


def cases(model: str, bias: dict[str, float]) -> list[Ask]:
    asked = Ask(
        (User("What's the weather?"),),
        system="Be brief.",
        tools=OFFERED,
        strict=None,
        temperature=1.0,
    )
    extra = {"model": model, "logit_bias": bias, "seed": 11}
    return [
        replace(asked, choice=choice, reasoning=reasoning, max_tokens=most, extra=extra)
        for choice in ("auto", "required")
        for reasoning in ("none", "medium")
        for most in (90, 400)
    ]


async def test_seeded_answers_are_those_of_the_other_apis(
    gateway: Gateway, model: str, bias: dict[str, float]
) -> None:
    """Streamed and whole, with every call valid, and the same usage."""
    headers = bearer(gateway.key)
    async with http_client(gateway.url, headers=headers, timeout=300) as http:
        evaluation = Evaluation(http, Api.MESSAGES, [Api.CHAT, Api.RESPONSES], concurrency=8)
        result = await evaluation.run(cases(model, bias))
    assert not result.violations, result.examples
    assert result.calls
    assert result.cut


def test_tokens_are_counted_as_in_the_usage(http: httpx.Client, common: dict[str, Any]) -> None:
    for kind in ("disabled", "adaptive"):
        body = {**common, "messages": [{"role": "user", "content": "Go on."}], "max_tokens": 4}
        body |= {"thinking": {"type": kind}, "system": "Be brief.", "tools": TOOLS}
        body["tool_choice"] = {"type": "auto"}
        counted = http.post("/v1/messages/count_tokens", json=body).json()["input_tokens"]
        usage = http.post("/v1/messages", json=body).json()["usage"]
        assert usage["input_tokens"] + usage["cache_read_input_tokens"] == counted > 0


def test_errors_about_the_context_are_in_anthropics_words(
    http: httpx.Client, common: dict[str, Any]
) -> None:
    """Claude Code reads the numbers."""
    body = {**common, "messages": [{"role": "user", "content": "one two three"}]}
    as_sent = {"toolgate": {"fit_max_tokens": False}}
    answer = http.post("/v1/messages", json=body | as_sent | {"max_tokens": 1_000_000})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "context_length_exceeded")
    form = r"input length and `max_tokens` exceed context limit: (\d+) \+ (\d+) > (\d+), "
    numbers = re.match(form, error["message"])
    assert numbers is not None, error
    prompt, most, context = map(int, numbers.groups())
    assert most == 1_000_000
    assert http.post("/v1/messages", json=body | {"max_tokens": context - prompt}).is_success
    for words in (context, context * 30):
        long = [{"role": "user", "content": "one " * words}]
        for path in ("/v1/messages", "/v1/messages/count_tokens"):
            refused = http.post(path, json=body | {"messages": long})
            assert refused.status_code == 400
            message = refused.json()["error"]["message"]
            form = r"prompt is too long: (?:about )?(\d+) tokens > (\d+) maximum"
            counted = re.fullmatch(form, message)
            assert counted is not None, message
            assert int(counted[1]) > int(counted[2]) == context
