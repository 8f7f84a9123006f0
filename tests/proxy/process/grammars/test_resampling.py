"""Choices whose call violates its schema are sampled again; streamed and not."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest

from tests.support.apis.sdk_requests import asked, streamed, whole
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
async def test_invalid_call_is_resampled_from_its_beginning(
    client: openai.AsyncOpenAI, backend: FakeBackend, http: httpx.AsyncClient, ask: Ask
) -> None:
    before = await scrape(http, "toolgate_resamples_total")
    first = "I tag.\n" + call("plain", {"a": 1}) + "\n"
    backend.scripts["bad"] = Script((first + BAD + "\n" + GOOD,), again=(BAD, GOOD))
    params = asked("bad", tools=[TAGS, PLAIN], seed=7, max_tokens=500)
    answer, usage = await ask(client, **params)
    assert calls_of(answer) == [
        ("plain", {"a": 1}),
        ("set_tags", {"tags": ["red", "green", "blue", "yellow"]}),
    ]
    assert (answer[0][0], answer[0][3]) == ("I tag.", "tool_calls")
    sent = backend.requests
    assert [len(each.accepted) for each in sent] == [0, *[len(tokenize(first))] * 2]
    assert sent[1].accepted == tuple(token for token, _ in tokenize(first))
    assert len({each.sampling.seed for each in sent}) == 3
    spent = [len(tokenize(text)) for text in (first, BAD, BAD, GOOD + "<|im_end|>")]
    assert usage["completion_tokens"] == sum(spent)
    left = [each.sampling.max_tokens for each in sent]
    assert left == [500, 500 - sum(spent[:2]), 500 - sum(spent[:3])]
    assert await scrape(http, "toolgate_resamples_total") == before + 2
    again, _ = await ask(client, **params)
    assert again == answer
    assert [each.sampling.seed for each in sent[3:]] == [each.sampling.seed for each in sent[:3]]


async def test_greedy_request_is_resampled_with_temperature_and_seed(
    client: openai.AsyncOpenAI, backend: FakeBackend
) -> None:
    backend.scripts["bad"] = Script((BAD,), again=(GOOD,))
    await whole(client, **asked("bad", tools=[TAGS], temperature=0))
    first, second = backend.requests
    assert (first.sampling.temperature, first.sampling.seed) == (0, None)
    assert second.sampling.temperature == 1
    assert second.sampling.seed is not None


@BOTH
async def test_resampled_choice_may_end_without_a_call(
    client: openai.AsyncOpenAI, backend: FakeBackend, ask: Ask
) -> None:
    backend.scripts["bad"] = Script(("Hello. " + BAD,), again=(" And good bye.",))
    answer, _ = await ask(client, **asked("bad", tools=[TAGS], stop=["never"], logprobs=True))
    content, _, calls, finish, logprobs = answer[0]
    assert (content, calls, finish) == ("Hello.  And good bye.", [], "stop")
    assert "".join(logprobs) == content


@pytest.mark.parametrize("stream", [False, True])
async def test_last_failed_attempt_returns_tool_schema_violation(
    client: openai.AsyncOpenAI, backend: FakeBackend, stream: bool
) -> None:
    backend.scripts["bad"] = Script(("So. " + BAD,), again=(BAD, BAD, GOOD))
    seen: list[Any] = []

    async def read() -> None:
        told = await client.chat.completions.create(**asked("bad", tools=[TAGS]), stream=stream)
        if stream:
            seen.extend([chunk async for chunk in told])

    with pytest.raises(openai.APIError) as failure:
        await read()
    assert len(backend.requests) == 3
    assert isinstance(failure.value.body, dict)
    error = failure.value.body
    assert (error["code"], error["keyword"], error["pointer"]) == (
        "tool_schema_violation",
        "uniqueItems",
        "/tags",
    )
    assert all(word in error["message"] for word in ("set_tags", "/tags", "uniqueItems"))
    assert all(chunk.choices[0].finish_reason is None for chunk in seen)
    assert not any(chunk.choices[0].delta.tool_calls for chunk in seen)
    if not stream:
        assert isinstance(failure.value, openai.InternalServerError)


@pytest.mark.parametrize("stream", [False, True])
async def test_no_attempt_without_budget_left(
    client: openai.AsyncOpenAI, backend: FakeBackend, stream: bool
) -> None:
    backend.scripts["bad"] = Script((BAD,), again=(GOOD,))
    budget = len(tokenize(BAD))

    async def read() -> None:
        told = await client.chat.completions.create(
            **asked("bad", tools=[TAGS], max_tokens=budget), stream=stream
        )
        if stream:
            async for _ in told:
                pass

    with pytest.raises(openai.APIError) as failure:
        await read()
    assert failure.value.code == "tool_schema_violation"
    assert len(backend.requests) == 1


@BOTH
async def test_complete_arguments_at_the_budgets_end_are_validated(
    client: openai.AsyncOpenAI, backend: FakeBackend, ask: Ask
) -> None:
    whole_arguments = BAD.removesuffix("}\n</tool_call>")
    backend.scripts["cut"] = Script((whole_arguments,), finish="length", again=(GOOD,))
    params = asked("cut", tools=[TAGS], max_tokens=len(tokenize(whole_arguments)))
    with pytest.raises(openai.APIError) as failure:
        await ask(client, **params)
    assert failure.value.code == "tool_schema_violation"


@BOTH
async def test_other_choices_continue_while_one_is_resampled(
    client: openai.AsyncOpenAI, backend: FakeBackend, ask: Ask
) -> None:
    other = "Something else, and rather longer than the call beside it, so that it outlasts it."
    texts = (BAD + "\n" + BAD, other, BAD)
    backend.scripts["three"] = Script(texts, again=(GOOD,))
    answer, usage = await ask(client, **asked("three", tools=[TAGS], n=3, seed=1))
    assert [answer[at][3] for at in range(3)] == ["tool_calls", "stop", "tool_calls"]
    assert answer[1][0] == other
    for at in (0, 2):
        assert calls_of(answer, at) == [("set_tags", {"tags": ["red", "green", "blue", "yellow"]})]
    assert [each.sampling.n for each in backend.requests] == [3, 1, 1]
    assert len({each.sampling.seed for each in backend.requests}) == 3
    spent = 2 * len(tokenize(BAD)) + 2 * len(tokenize(GOOD + "<|im_end|>"))
    assert usage["completion_tokens"] == spent + len(tokenize(other + "<|im_end|>"))
