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
    before_value,
    calls_of,
    scrape,
)
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.script import Script, call, tokenize

GIVEN_UP = "toolgate_given_up_calls_total"
BOTH = pytest.mark.parametrize("ask", [whole, streamed])


@pytest.fixture(autouse=True)
def _residual(backend: FakeBackend) -> None:
    backend.residual["set_tags"] = (UNIQUE,)


@BOTH
async def test_invalid_call_is_resampled_before_the_value_then_from_its_beginning(
    client: openai.AsyncOpenAI, backend: FakeBackend, http: httpx.AsyncClient, ask: Ask
) -> None:
    names = [f'toolgate_resamples_total{{before="{place}"}}' for place in ("value", "call")]
    before = [await scrape(http, name) for name in names]
    first = "I tag.\n" + call("plain", {"a": 1}) + "\n"
    backend.scripts["bad"] = Script((first + BAD + "\n" + GOOD,), again=(BAD, BAD, GOOD))
    params = asked("bad", tools=[TAGS, PLAIN], seed=7, max_tokens=500)
    answer, usage = await ask(client, **params)
    assert calls_of(answer) == [
        ("plain", {"a": 1}),
        ("set_tags", {"tags": ["red", "green", "blue", "yellow"]}),
    ]
    assert (answer[0][0], answer[0][3]) == ("I tag.", "tool_calls")
    sent = backend.requests
    tokens = tuple(token for token, _ in tokenize(first + BAD))
    start, bad = len(tokenize(first)), len(tokenize(BAD))
    last, array = before_value(BAD, "red"), before_value(BAD, "[")
    kept = [start + last, start + array, start]
    assert [each.accepted for each in sent] == [(), *(tokens[:at] for at in kept)]
    assert [each.excluded for each in sent] == [None, (tokens[kept[0]],), None, None]
    assert len({each.sampling.seed for each in sent}) == 4
    good = len(tokenize(GOOD + "<|im_end|>"))
    spent = [start + bad, bad - last, bad - array, good]
    assert usage["completion_tokens"] == sum(spent)
    left = [each.sampling.max_tokens for each in sent]
    assert left == [500 - sum(spent[:at]) for at in range(4)]
    assert [await scrape(http, name) for name in names] == [before[0] + 2, before[1] + 1]
    again, _ = await ask(client, **params)
    assert again == answer
    assert [each.sampling.seed for each in sent[4:]] == [each.sampling.seed for each in sent[:4]]


@BOTH
async def test_a_call_continues_inside_its_arguments(
    client: openai.AsyncOpenAI, backend: FakeBackend, ask: Ask
) -> None:
    fixed = call("set_tags", {"tags": ["red", "rust"]})
    backend.scripts["bad"] = Script((BAD,), again=(fixed,))
    answer, _ = await ask(client, **asked("bad", tools=[TAGS], logprobs=True))
    assert calls_of(answer) == [("set_tags", {"tags": ["red", "rust"]})]
    assert [len(each.accepted) for each in backend.requests] == [0, before_value(BAD, "red")]


async def test_greedy_request_samples_only_a_whole_call_with_temperature(
    client: openai.AsyncOpenAI, backend: FakeBackend
) -> None:
    backend.scripts["bad"] = Script((BAD,), again=(BAD, BAD, GOOD))
    await whole(client, **asked("bad", tools=[TAGS], temperature=0))
    sampling = [each.sampling for each in backend.requests]
    # The second attempt continues before an array, whose first token is not excluded.
    assert [each.temperature for each in sampling] == [0, 0, 1, 1]
    assert [each.seed is None for each in sampling] == [True, True, False, False]


@BOTH
async def test_resampled_choice_may_end_without_a_call(
    client: openai.AsyncOpenAI, backend: FakeBackend, ask: Ask
) -> None:
    again = (BAD, BAD, " And good bye.")
    backend.scripts["bad"] = Script(("Hello. " + BAD,), again=again)
    answer, _ = await ask(client, **asked("bad", tools=[TAGS], stop=["never"], logprobs=True))
    content, _, calls, finish, logprobs = answer[0]
    assert (content, calls, finish) == ("Hello.  And good bye.", [], "stop")
    assert "".join(logprobs) == content


@pytest.mark.parametrize("stream", [False, True])
async def test_last_failed_attempt_returns_tool_schema_violation(
    client: openai.AsyncOpenAI, backend: FakeBackend, http: httpx.AsyncClient, stream: bool
) -> None:
    given_up = await scrape(http, GIVEN_UP)
    backend.scripts["bad"] = Script(("So. " + BAD,), again=(*(BAD,) * 6, GOOD))
    seen: list[Any] = []

    async def read() -> None:
        told = await client.chat.completions.create(**asked("bad", tools=[TAGS]), stream=stream)
        if stream:
            seen.extend([chunk async for chunk in told])

    with pytest.raises(openai.APIError) as failure:
        await read()
    assert len(backend.requests) == 7
    assert await scrape(http, GIVEN_UP) == given_up + 1
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


@BOTH
async def test_no_attempt_without_budget_left(
    client: openai.AsyncOpenAI, backend: FakeBackend, http: httpx.AsyncClient, ask: Ask
) -> None:
    given_up = await scrape(http, GIVEN_UP)
    backend.scripts["bad"] = Script((BAD,), again=(GOOD,))
    with pytest.raises(openai.APIError) as failure:
        await ask(client, **asked("bad", tools=[TAGS], max_tokens=len(tokenize(BAD))))
    assert failure.value.code == "tool_schema_violation"
    assert len(backend.requests) == 1
    assert await scrape(http, GIVEN_UP) == given_up + 1


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
    kept = before_value(BAD, "red")
    spent = 2 * len(tokenize(BAD)) + 2 * (len(tokenize(GOOD + "<|im_end|>")) - kept)
    assert usage["completion_tokens"] == spent + len(tokenize(other + "<|im_end|>"))
