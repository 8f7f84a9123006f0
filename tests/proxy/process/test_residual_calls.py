"""Calls that the masks can't vouch for, through a gateway whose backend errs by script: held back,
checked, sampled again, and in the end refused; streamed and not."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.support.fake_backend import FakeBackend
from tests.support.script import Script, call, tokenize
from tests.support.sdk_requests import asked, streamed, whole
from toolgate_core import wire

AdmissionRequest = Callable[..., Awaitable[tuple[dict[int, Any], Any]]]

TAGS = {
    "type": "function",
    "function": {
        "name": "set_tags",
        "parameters": {
            "type": "object",
            "properties": {"tags": {"type": "array", "uniqueItems": True}},
        },
    },
}
PLAIN = {
    "type": "function",
    "function": {
        "name": "plain",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    },
}
UNIQUE = wire.ResidualKeyword(pointer="/properties/tags/uniqueItems", keyword="uniqueItems")
GOOD = call("set_tags", {"tags": ["red", "green", "blue", "yellow"]})
BAD = call("set_tags", {"tags": ["red", "red"]})
BOTH = pytest.mark.parametrize("ask", [whole, streamed])


@pytest.fixture(autouse=True)
def _residual(backend: FakeBackend) -> None:
    backend.residual["set_tags"] = (UNIQUE,)


def calls_of(answer: dict[int, Any], choice: int = 0) -> list[tuple[str, Any]]:
    return [(name, json.loads(arguments)) for name, arguments in answer[choice][2]]


async def scrape(http: httpx.AsyncClient, name: str) -> float:
    text = (await http.get("/toolgate/metrics")).text
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


@BOTH
async def test_a_valid_call_is_sent(
    client: openai.AsyncOpenAI, backend: FakeBackend, ask: AdmissionRequest
) -> None:
    backend.scripts["good"] = Script(("I tag.\n" + GOOD,))
    answer, usage = await ask(client, **asked("good", tools=[TAGS]))
    assert calls_of(answer) == [("set_tags", {"tags": ["red", "green", "blue", "yellow"]})]
    assert (answer[0][0], answer[0][3]) == ("I tag.", "tool_calls")
    assert len(backend.requests) == 1
    assert usage["completion_tokens"] == len(tokenize("I tag.\n" + GOOD + "<|im_end|>"))


@BOTH
async def test_a_wrong_call_is_sampled_again_from_just_before_it(
    client: openai.AsyncOpenAI, backend: FakeBackend, http: httpx.AsyncClient, ask: AdmissionRequest
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


async def test_a_wrong_call_of_a_greedy_request_is_not_repeated_greedily(
    client: openai.AsyncOpenAI, backend: FakeBackend
) -> None:
    backend.scripts["bad"] = Script((BAD,), again=(GOOD,))
    await whole(client, **asked("bad", tools=[TAGS], temperature=0))
    first, second = backend.requests
    assert (first.sampling.temperature, first.sampling.seed) == (0, None)
    assert second.sampling.temperature == 1
    assert second.sampling.seed is not None


@BOTH
async def test_the_model_may_do_something_else_when_it_is_sampled_again(
    client: openai.AsyncOpenAI, backend: FakeBackend, ask: AdmissionRequest
) -> None:
    backend.scripts["bad"] = Script(("Hello. " + BAD,), again=(" And good bye.",))
    answer, _ = await ask(client, **asked("bad", tools=[TAGS], stop=["never"], logprobs=True))
    content, _, calls, finish, logprobs = answer[0]
    assert (content, calls, finish) == ("Hello.  And good bye.", [], "stop")
    assert "".join(logprobs) == content


@pytest.mark.parametrize("stream", [False, True])
async def test_after_the_last_attempt_the_request_ends_with_an_error(
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
async def test_the_budget_bounds_the_attempts(
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
async def test_a_call_that_the_budget_cuts_is_shown_as_far_as_it_came(
    client: openai.AsyncOpenAI, backend: FakeBackend, ask: AdmissionRequest
) -> None:
    cut = call("set_tags", {"tags": ["red", "red", "green"]})[:70]
    backend.scripts["cut"] = Script((cut,), finish="length")
    answer, _ = await ask(client, **asked("cut", tools=[TAGS]))
    [(name, arguments)] = answer[0][2]
    assert (name, answer[0][3]) == ("set_tags", "length")
    assert arguments.startswith('{"tags": ["red", ')
    assert len(backend.requests) == 1


@BOTH
async def test_arguments_that_are_whole_when_the_budget_cuts_are_checked_too(
    client: openai.AsyncOpenAI, backend: FakeBackend, ask: AdmissionRequest
) -> None:
    whole_arguments = BAD.removesuffix("}\n</tool_call>")
    backend.scripts["cut"] = Script((whole_arguments,), finish="length", again=(GOOD,))
    params = asked("cut", tools=[TAGS], max_tokens=len(tokenize(whole_arguments)))
    with pytest.raises(openai.APIError) as failure:
        await ask(client, **params)
    assert failure.value.code == "tool_schema_violation"


@BOTH
async def test_the_other_choices_go_on(
    client: openai.AsyncOpenAI, backend: FakeBackend, ask: AdmissionRequest
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


async def test_only_the_doubtful_call_is_held_back(
    client: openai.AsyncOpenAI, backend: FakeBackend
) -> None:
    """Its first part arrives with its last one; those of the call before it had long arrived."""
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
async def test_a_violation_that_the_masks_rule_out_is_a_bug_and_no_answer(
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
    assert len(shown) < len(arguments), "what was shown can't be taken for a whole call"
    assert await scrape(http, counter) == before + 1
    log = gateway_log.read_text(errors="replace")
    assert re.search(r"schema [0-9a-f]{64}, keyword 'type' at '/properties/a/type'", log)
    assert "a-secret-value" not in log


@pytest.mark.parametrize("stream", [False, True])
async def test_a_check_without_end_ends_the_request_alone(
    client: openai.AsyncOpenAI, backend: FakeBackend, stream: bool
) -> None:
    defs: dict[str, Any] = {
        f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}, {"$ref": f"#/$defs/a{i + 1}"}]}
        for i in range(50)
    }
    parameters = {"$defs": {**defs, "a50": {"maxProperties": 3}}, "$ref": "#/$defs/a0"}
    tool = {"type": "function", "function": {"name": "endless", "parameters": parameters}}
    backend.scripts |= {"endless": Script((call("endless", {}),)), "other": Script(("Hello",))}

    async def hostile() -> None:
        told = await client.chat.completions.create(**asked("endless", tools=[tool]), stream=stream)
        if stream:
            async for _ in told:
                pass

    failing = asyncio.create_task(hostile())
    answer, _ = await whole(client, **asked("other"))
    assert answer[0][0] == "Hello"
    with pytest.raises(openai.APIError) as failure:
        await failing
    assert failure.value.code == "arguments_not_checked"


@pytest.mark.parametrize("stream", [False, True])
async def test_strict_tools_refuse_what_no_mask_holds(
    http: httpx.AsyncClient, backend: FakeBackend, stream: bool
) -> None:
    strict = {**TAGS, "function": TAGS["function"] | {"strict": True}}  # type: ignore[operator]
    response = await http.post(
        "/v1/chat/completions", json=asked("good", stream=stream, tools=[PLAIN, strict])
    )
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["code"] == "schema_not_enforceable"
    assert error["param"] == "/tools/1/function/parameters/properties/tags/uniqueItems"
    assert error["pointer"] == "/properties/tags/uniqueItems"
    assert backend.requests == []


async def test_the_receipt_says_that_calls_were_checked(
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
