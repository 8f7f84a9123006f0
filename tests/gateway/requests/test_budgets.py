"""Small budgets: a required call fits or is refused, and reasoning leaves room for it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jsonschema
import openai
import pytest
import tokenizers

from tests import tools
from tests.gateway.requests import answers
from tests.models import tiny_model
from tests.support.effort import repeats

USER = [{"role": "user", "content": "Weather in Beijing?"}]
SCHEMAS = {t["function"]["name"]: t["function"]["parameters"] for t in tools.ALL}
LARGER = (48, 64, 96, 128, 200, 256)[:: repeats(2, nightly=1)]
"""Budgets with room for more than the shortest call."""


def request(max_tokens: int, **more: Any) -> dict[str, Any]:
    """Without logit_bias, the random model seldom ends its reasoning or a string."""
    return {
        "model": "tiny",
        "messages": USER,
        "tools": tools.ALL,
        "tool_choice": "required",
        "reasoning_effort": "high",
        "temperature": 1.0,
        "seed": max_tokens,
        "max_tokens": max_tokens,
        **more,
    }


def least(client: openai.OpenAI, **more: Any) -> int:
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**request(1, **more))
    body = refused.value.body
    assert isinstance(body, dict)
    assert (body["code"], body["param"]) == ("max_tokens_too_small", "max_tokens")
    assert str(body["least_max_tokens"]) in body["message"]
    return int(body["least_max_tokens"])


NAMED = {"type": "function", "function": {"name": "set_range"}}


@pytest.mark.parametrize("choice", ["required", NAMED], ids=["required", "named"])
def test_a_required_call_begins_from_the_least_budget_on(
    client: openai.OpenAI, choice: Any
) -> None:
    floor = least(client, tool_choice=choice)
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(**request(floor - 1, tool_choice=choice))
    budgets = [*range(floor, floor + repeats(4, nightly=8)), *LARGER]
    asked = [request(budget, tool_choice=choice) for budget in budgets]
    reasoned = 0
    for [answer] in answers.both_forms(client, asked):
        answers.check(answer, tools.ALL)
        assert answer.calls
        assert answer.finish_reason in ("length", "stop", "tool_calls")
        reasoned += bool(answer.reasoning)
    assert reasoned


def test_a_cut_call_is_marked_last_call_cut_in_both_forms(client: openai.OpenAI) -> None:
    """The default: reasoning leaves room for the shortest call, and a longer one is cut."""
    floor = least(client)
    cut = 0
    for budget in (floor, floor + 10, 64, 100):
        asked = request(budget)
        response = client.chat.completions.create(**asked)
        [whole] = answers.from_whole(response)
        chunks = [*client.chat.completions.create(**asked, stream=True)]
        [streamed] = answers.from_chunks(chunks)
        assert whole == streamed
        answers.check(whole, tools.ALL)
        mark = getattr(response.choices[0], "toolgate", None)
        assert getattr(chunks[-1].choices[0], "toolgate", None) == mark
        if whole.finish_reason == "length":
            cut += mark == {"last_call": "cut"}
        else:
            assert mark is None
    assert cut


def test_reasoning_never_exceeds_reasoning_budget(client: openai.OpenAI) -> None:
    def reasoning_tokens(budget: int) -> int:
        asked = request(300, tool_choice="auto", extra_body={"reasoning_budget": budget})
        usage = client.chat.completions.create(**asked).usage
        assert usage
        assert usage.completion_tokens_details
        return usage.completion_tokens_details.reasoning_tokens or 0

    budgets = (0, 5, 30)
    with ThreadPoolExecutor() as pool:
        for budget, tokens in zip(budgets, pool.map(reasoning_tokens, budgets), strict=True):
            assert tokens <= budget + 2  # vLLM counts the two marks as reasoning, and so do we


@pytest.mark.parametrize("guard", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_call_that_repeats_itself_is_cut(client: openai.OpenAI, guard: bool) -> None:
    tokenizer = tokenizers.Tokenizer.from_file(str(tiny_model() / "tokenizer.json"))
    [liked] = tokenizer.encode(" the", add_special_tokens=False).ids
    tool = tools.tool("note", {"text": {"type": "string"}, "title": {"type": "string"}})
    limit = 2500 if guard else 1500
    asked = request(
        limit,
        tools=[tool],
        reasoning_effort="none",
        temperature=0.0,
        logit_bias={str(liked): 100},
        extra_body={"toolgate": {"repetition_guard": guard}},
    )
    with ThreadPoolExecutor(1) as pool:  # in one batch with the others
        completion = pool.submit(client.chat.completions.create, **asked)
        [[answer]] = answers.both_forms(client, [asked])
    assert answer.finish_reason == "length"
    (choice,) = completion.result().choices
    assert choice.toolgate == {"last_call": "cut"}  # type: ignore[attr-defined]
    used = completion.result().usage
    assert used
    assert (used.completion_tokens < limit) is guard


def test_a_number_and_a_string_of_a_format_end(client: openai.OpenAI) -> None:
    tokenizer = tokenizers.Tokenizer.from_file(str(tiny_model() / "tokenizer.json"))

    def content(liked: str, schema: dict[str, Any]) -> tuple[str, str]:
        [token] = tokenizer.encode(liked, add_special_tokens=False).ids
        form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
        asked = request(
            1500,
            tools=openai.omit,
            tool_choice=openai.omit,
            reasoning_effort="none",
            temperature=0.0,
            logit_bias={str(token): 100},
            response_format=form,
        )
        (choice,) = client.chat.completions.create(**asked).choices
        written = choice.message.content or ""
        if choice.finish_reason == "stop":
            jsonschema.validate(json.loads(written), schema)
        return str(choice.finish_reason), written

    def schema(**value: Any) -> dict[str, Any]:
        return {"type": "object", "properties": {"a": value}, "required": ["a"]}

    with ThreadPoolExecutor() as pool:
        number = pool.submit(content, "7", schema(type="number"))
        text = pool.submit(content, " the", schema(type="string", minLength=9))
    (end, written), (end_of_text, long) = number.result(), text.result()
    assert end == "stop"
    assert "7" * 20 in written
    assert len(written) < 100
    assert end_of_text == "length"
    assert len(long) >= 1024 * len(" the")
