"""The Messages API through the whole stack: the answers of the other APIs, and exact counts."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests import tools
from tests.gateway.servers import Gateway
from tests.long.judgement import all_violations, shows_reasoning
from tests.support.apis import replies
from tests.support.servers.http_client import bearer, http_client
from toolgate_verify.asking import messages, request
from toolgate_verify.asking.ask import Ask, User
from toolgate_verify.reading.answer import Answer
from toolgate_verify.terms import Api
from toolgate_verify.tools.tool import Tool

OFFERED = tuple(
    Tool(each["name"], each.get("description", ""), each["parameters"])
    for each in (tool["function"] for tool in tools.ALL)
)
TOOLS = [messages.tool(tool, strict=None) for tool in OFFERED]
WAYS = ((Api.MESSAGES, False), (Api.MESSAGES, True), (Api.CHAT, False), (Api.RESPONSES, False))
"""APIs that are asked, and whether the response is streamed."""


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


def body_of(api: Api, case: Ask) -> dict[str, Any]:
    """The body of a case. Its effort only says whether the model reasons: the template's switch
    means the same in each API, and the Messages API has one of its own."""
    body = request(api, replace(case, reasoning=None)).body
    assert body is not None
    reasons = case.reasoning != "none"
    if api == Api.MESSAGES:
        return body | {"thinking": {"type": "adaptive" if reasons else "disabled"}}
    return body | {"chat_template_kwargs": {"enable_thinking": reasons}}


async def answers(http: httpx.AsyncClient, case: Ask) -> list[Answer]:
    """The answers of a case in all ways, each of which breaks no rule."""
    found = []
    for api, stream in WAYS:
        body = body_of(api, replace(case, stream=stream))
        response = await http.post(replies.PATHS[api], json=body)
        assert response.status_code == 200, response.text
        [reply] = replies.read(api, response.content, streamed=stream)
        assert [*all_violations(api, case, reply.answer)] == [], (api, stream, case)
        found.append(reply.answer)
    return found


def compared(answer: Answer, case: Ask) -> tuple[Any, ...]:
    """What the answers of all APIs have in common. The Messages API has no spelling of arguments,
    and no incomplete calls."""
    calls = [
        (call.name, json.dumps(json.loads(call.arguments), sort_keys=True))
        for call in answer.calls
        if call.complete
    ]
    reasoning = answer.reasoning if shows_reasoning(Api.MESSAGES, case) else ""
    assert answer.usage is not None
    counts = answer.usage.prompt, answer.usage.completion
    return answer.text, reasoning, calls, answer.cut, counts


async def test_seeded_answers_are_those_of_the_other_apis(
    gateway: Gateway, model: str, bias: dict[str, float]
) -> None:
    """Streamed and whole, with every call valid, and the same usage."""
    asked = cases(model, bias)
    async with http_client(gateway.url, headers=bearer(gateway.key), timeout=300) as http:
        batch = await asyncio.gather(*(answers(http, case) for case in asked))
        for case, found in zip(asked, batch, strict=True):
            first, *others = (compared(each, case) for each in found)
            if any(other != first for other in others):
                # What else is in the engine's batch can change a sampled token.
                first, *others = (compared(each, case) for each in await answers(http, case))
                assert [first, first, first] == others, case
    assert any(each.calls for found in batch for each in found[:2])
    assert any(each.cut for found in batch for each in found[:2])


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
