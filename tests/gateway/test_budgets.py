"""Budgets of tokens: a required call fits or is refused, reasoning leaves room for it, and what
does not fit the context is refused before any token."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests import tools
from tests.support.effort import repeats

from . import kit

USER = [{"role": "user", "content": "Weather in Beijing?"}]
LARGER = (48, 64, 96, 128, 200, 256)[:: repeats(2, nightly=1)]
"""Budgets with room for more than the shortest call."""
NAMED = {"type": "function", "function": {"name": "set_range"}}


def request(max_tokens, **more):
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


def least(http, **more):
    error = kit.refusal(http, request(1, **more))
    assert (error["code"], error["param"]) == ("max_tokens_too_small", "max_tokens")
    assert str(error["least_max_tokens"]) in error["message"]
    return int(error["least_max_tokens"])


@kit.both_ways
@pytest.mark.parametrize("choice", ["required", NAMED], ids=["required", "named"])
def test_a_required_call_begins_from_the_least_budget_on(http, choice):
    floor = least(http, tool_choice=choice)
    kit.refusal(http, request(floor - 1, tool_choice=choice))
    budgets = [*range(floor, floor + repeats(4, nightly=8)), *LARGER]
    asked = [request(budget, tool_choice=choice) for budget in budgets]
    reasoned = 0
    for [answer] in kit.both_forms(http, asked):
        kit.check(answer, tools.ALL)
        assert answer.calls
        assert answer.finish_reason in ("length", "stop", "tool_calls")
        reasoned += bool(answer.reasoning)
    assert reasoned


@kit.both_ways
def test_a_cut_call_is_marked_last_call_cut_in_both_forms(http):
    """The default: reasoning leaves room for the shortest call, and a longer one is cut."""
    floor = least(http)
    cut = 0
    for budget in (floor, floor + 10, 64, 100):
        [whole], [streamed] = (kit.ask(http, request(budget), stream=on) for on in (False, True))
        answer = kit.output(whole)
        assert kit.output(streamed) == answer
        kit.check(answer, tools.ALL)
        assert whole.last_call == streamed.last_call
        assert whole.last_call in (None, "cut")
        assert whole.last_call is None or whole.answer.cut
        cut += whole.last_call is not None
    assert cut


@kit.both_ways
def test_reasoning_never_exceeds_reasoning_budget(http):
    def reasoning_tokens(budget):
        [reply] = kit.ask(http, request(300, tool_choice="auto", reasoning_budget=budget))
        assert reply.answer.usage is not None
        return reply.answer.usage.reasoning or 0

    budgets = (0, 5, 30)
    with ThreadPoolExecutor() as pool:
        for budget, tokens in zip(budgets, pool.map(reasoning_tokens, budgets), strict=True):
            assert tokens <= budget + 2  # vLLM counts the two marks as reasoning, and so do we


@kit.both_ways
@pytest.mark.parametrize("guard", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_call_that_repeats_itself_is_cut(http, guard):
    tool = tools.tool("note", {"text": {"type": "string"}, "title": {"type": "string"}})
    limit = 2500 if guard else 1500
    asked = request(
        limit,
        tools=[tool],
        reasoning_effort="none",
        temperature=0.0,
        logit_bias={str(kit.token_of(" the")): 100},
        toolgate={"repetition_guard": guard},
    )
    [reply] = kit.ask(http, asked)
    assert (reply.answer.finish, reply.last_call) == ("length", "cut")
    assert reply.answer.usage
    assert (reply.answer.usage.completion < limit) is guard
