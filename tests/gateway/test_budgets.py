"""Small budgets: a call that is owed fits or is refused, and thinking never swallows it."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import openai
import pytest

from tests import tools

from . import answers

USER = [{"role": "user", "content": "Weather in Beijing?"}]
SCHEMAS = {t["function"]["name"]: t["function"]["parameters"] for t in tools.ALL}
CLOSE = {"toolgate": {"on_budget": "close"}}


def request(max_tokens: int, **more: Any) -> dict[str, Any]:
    """No bias: the model rambles, in its thinking and in its strings."""
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
def test_from_the_least_budget_on_a_closed_call_is_valid(
    client: openai.OpenAI, choice: Any
) -> None:
    floor = least(client, tool_choice=choice)
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(**request(floor - 1, tool_choice=choice, extra_body=CLOSE))
    budgets = [*range(floor, floor + 8), 48, 64, 96, 128, 200, 256]
    thought = 0
    for budget in budgets:
        asked = request(budget, tool_choice=choice, extra_body=CLOSE)
        [whole] = answers.from_whole(client.chat.completions.create(**asked))
        [streamed] = answers.from_chunks([*client.chat.completions.create(**asked, stream=True)])
        assert whole == streamed
        assert whole.calls
        for name, arguments in whole.calls:
            jsonschema.validate(json.loads(arguments), SCHEMAS[name])
        assert whole.finish_reason in ("length", "stop", "tool_calls")
        thought += bool(whole.reasoning)
    assert thought


def test_a_cut_call_is_marked_in_both_forms(client: openai.OpenAI) -> None:
    """The default: thinking leaves room for a call, and the model may ramble past it."""
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


def test_a_reasoning_budget_is_kept(client: openai.OpenAI) -> None:
    for budget in (0, 5, 30):
        asked = request(300, tool_choice="auto", extra_body={"reasoning_budget": budget})
        usage = client.chat.completions.create(**asked).usage
        assert usage
        assert usage.completion_tokens_details
        # The two marks count as reasoning, as they do at vLLM.
        assert (usage.completion_tokens_details.reasoning_tokens or 0) <= budget + 2
