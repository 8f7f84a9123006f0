"""Calls with a keyword that no mask enforces are held back and validated; streamed and not."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import httpx
import openai
import pytest

from tests.support.apis.sdk_requests import asked, streamed, whole
from tests.support.schemas.hostile import endless_validation
from tests.support.schemas.residual_calls import (
    BAD,
    GOOD,
    PLAIN,
    TAGS,
    UNIQUE,
    Ask,
    calls_of,
    scrape,
)
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.script import Script, call, tokenize

BOTH = pytest.mark.parametrize("ask", [whole, streamed])


@pytest.fixture(autouse=True)
def _residual(backend: FakeBackend) -> None:
    backend.residual["set_tags"] = (UNIQUE,)


@BOTH
async def test_valid_call_is_sent_unchanged(
    client: openai.AsyncOpenAI, backend: FakeBackend, ask: Ask
) -> None:
    backend.scripts["good"] = Script(("I tag.\n" + GOOD,))
    answer, usage = await ask(client, **asked("good", tools=[TAGS]))
    assert calls_of(answer) == [("set_tags", {"tags": ["red", "green", "blue", "yellow"]})]
    assert (answer[0][0], answer[0][3]) == ("I tag.", "tool_calls")
    assert len(backend.requests) == 1
    assert usage["completion_tokens"] == len(tokenize("I tag.\n" + GOOD + "<|im_end|>"))


@BOTH
async def test_call_cut_by_the_budget_is_sent_as_far_as_it_came(
    client: openai.AsyncOpenAI, backend: FakeBackend, ask: Ask
) -> None:
    cut = call("set_tags", {"tags": ["red", "red", "green"]})[:70]
    backend.scripts["cut"] = Script((cut,), finish="length")
    answer, _ = await ask(client, **asked("cut", tools=[TAGS]))
    [(name, arguments)] = answer[0][2]
    assert (name, answer[0][3]) == ("set_tags", "length")
    assert arguments.startswith('{"tags": ["red", ')
    assert len(backend.requests) == 1


async def test_only_the_residual_call_is_held_back(
    client: openai.AsyncOpenAI, backend: FakeBackend
) -> None:
    """Its arguments arrive at once; those of the call before it arrive while it is generated."""
    first = call("plain", {"a": 12345678901234567890})
    backend.scripts["slow"] = Script((first + "\n" + GOOD,), pause=0.01)
    stream = await client.chat.completions.create(**asked("slow", tools=[TAGS, PLAIN]), stream=True)
    parts: list[tuple[int, str]] = []
    async for chunk in stream:
        if backend.running:
            parts += [
                (part.index, part.function.arguments or "")
                for part in chunk.choices[0].delta.tool_calls or []
                if part.function
            ]
    while_running = "".join(text for index, text in parts if index == 0)
    assert while_running.startswith('{"a": 123')


@pytest.mark.parametrize("stream", [False, True])
async def test_violation_despite_masks_returns_enforcement_failed(
    client: openai.AsyncOpenAI,
    backend: FakeBackend,
    http: httpx.AsyncClient,
    gateway_log: Path,
    stream: bool,
) -> None:
    counter = "toolgate_enforcement_violations_total"
    before = await scrape(http, counter)
    arguments = '{"a": "a-secret-value"}'
    backend.scripts["bug"] = Script((call("plain", arguments),))
    shown = ""

    async def read() -> None:
        nonlocal shown
        told = await client.chat.completions.create(**asked("bug", tools=[PLAIN]), stream=stream)
        if stream:
            async for chunk in told:
                assert chunk.choices[0].finish_reason is None
                for part in chunk.choices[0].delta.tool_calls or []:
                    shown += part.function.arguments or ""

    with pytest.raises(openai.APIError) as failure:
        await read()
    assert failure.value.code == "enforcement_failed"
    assert len(shown) < len(arguments), "the client did not receive complete arguments"
    assert await scrape(http, counter) == before + 1
    log = gateway_log.read_text(errors="replace")
    assert re.search(r"schema [0-9a-f]{64}, keyword 'type'", log)
    assert "a-secret-value" not in log


@BOTH
async def test_validation_without_end_fails_only_its_own_request(
    client: openai.AsyncOpenAI, backend: FakeBackend, ask: Ask
) -> None:
    parameters, arguments = endless_validation()
    tool = {"type": "function", "function": {"name": "endless", "parameters": parameters}}
    backend.scripts |= {
        "endless": Script((call("endless", arguments),)),
        "other": Script(("Hello",)),
    }
    failing = asyncio.ensure_future(ask(client, **asked("endless", tools=[tool])))
    answer, _ = await whole(client, **asked("other"))
    assert answer[0][0] == "Hello"
    with pytest.raises(openai.APIError) as failure:
        await failing
    assert failure.value.code == "arguments_not_checked"


@pytest.mark.parametrize("stream", [False, True])
async def test_strict_tool_with_residual_keyword_returns_400(
    http: httpx.AsyncClient, backend: FakeBackend, stream: bool
) -> None:
    strict = {**TAGS, "function": TAGS["function"] | {"strict": True}}  # type: ignore[operator]
    response = await http.post(
        "/v1/chat/completions", json=asked("good", stream=stream, tools=[PLAIN, strict])
    )
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["code"] == "schema_not_enforceable"
    assert error["param"] == "tools[1].function.parameters"
    assert error["pointer"] == "/properties/tags/uniqueItems"
    assert backend.requests == []


async def test_headers_report_residual_keywords_and_resamples(
    http: httpx.AsyncClient, backend: FakeBackend
) -> None:
    backend.scripts |= {"bad": Script((BAD,), again=(GOOD,)), "good": Script((GOOD,))}
    told = []
    for name in ("bad", "good"):
        response = await http.post("/v1/chat/completions", json=asked(name, tools=[TAGS, PLAIN]))
        assert response.status_code == 200
        told.append({k: v for k, v in response.headers.items() if k.startswith("x-toolgate")})
    for headers in told:
        assert headers["x-toolgate-enforced"] == "residual"
        assert headers["x-toolgate-residual"] == "1; keywords=uniqueItems"
    assert told[0]["x-toolgate-resamples"] == "1"
    assert "x-toolgate-resamples" not in told[1]
