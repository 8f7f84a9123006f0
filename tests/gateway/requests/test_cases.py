"""The six cases through the real stack, streamed and not."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from tests import tools
from tests.gateway.requests import answers
from toolgate_proxy.demo.cases import cases, properties


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_every_property_of_every_case_holds_in_both_forms(
    client: openai.OpenAI, common: dict[str, Any], seed: int
) -> None:
    """All cases are in flight at once."""
    asked = [{**common, **case.request, "seed": seed} for case in cases()]
    failed = [
        f"{case.title}: {name}"
        for case, [answer] in zip(cases(), answers.both_forms(client, asked), strict=True)
        for name, holds in properties(case.request, answer).items()
        if not holds
    ]
    assert not failed


@pytest.mark.parametrize("tool_choice", ["auto", "required"])
def test_every_choice_of_n_is_valid_in_both_forms(
    client: openai.OpenAI, common: dict[str, Any], tool_choice: str
) -> None:
    request = {**common, "n": 3, "tools": tools.ALL, "tool_choice": tool_choice}
    request["messages"] = [{"role": "user", "content": "Set everything up."}]
    whole = client.chat.completions.create(**request)
    chunks = [
        *client.chat.completions.create(
            **request, stream=True, stream_options={"include_usage": True}
        )
    ]
    streamed = answers.from_chunks(chunks)
    assert answers.from_whole(whole) == streamed
    for answer in streamed:
        answers.check(answer, tools.ALL)
        assert answer.calls or tool_choice == "auto"
    ids = [c.id for choice in whole.choices for c in choice.message.tool_calls or []]
    assert len(ids) == len(set(ids))
    assert whole.usage is not None
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens > 0
    assert chunks[-1].usage.prompt_tokens == whole.usage.prompt_tokens > 0


def test_a_tool_loop_continues_with_the_calls_results(
    client: openai.OpenAI, common: dict[str, Any]
) -> None:
    """The assistant's message goes back as it came: content null, arguments a string."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "The weather in Paris?"}]
    request = {**common, "tools": [tools.WEATHER], "reasoning_effort": "none"}
    first = client.chat.completions.create(**request, messages=messages, tool_choice="required")
    message = first.choices[0].message
    assert message.content is None
    assert message.tool_calls
    messages.append(message.model_dump(exclude_none=True) | {"content": None})
    messages += [
        {"role": "tool", "tool_call_id": call.id, "content": '{"celsius": 21}'}
        for call in message.tool_calls
    ]
    second = client.chat.completions.create(**request, messages=messages)
    assert second.choices[0].finish_reason in ("stop", "length", "tool_calls")


def test_earlier_arguments_may_be_an_object(client: openai.OpenAI, common: dict[str, Any]) -> None:
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "get_weather", "arguments": {"city": "北京"}},
    }
    messages = [
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ]
    answer = client.chat.completions.create(**common, messages=messages)  # type: ignore[arg-type]
    assert answer.choices[0].finish_reason in ("stop", "length")


def test_an_answer_cut_by_max_tokens_finishes_with_length_in_both_forms(
    client: openai.OpenAI, common: dict[str, Any]
) -> None:
    request = {**common, "max_tokens": 28, "tools": [tools.WEATHER], "tool_choice": "required"}
    request["logit_bias"] = {}
    request |= {"messages": [{"role": "user", "content": "hi"}], "reasoning_effort": "none"}
    [answer] = answers.whole(client, request)
    assert answers.streamed(client, request) == [answer]
    assert answer.finish_reason == "length"
