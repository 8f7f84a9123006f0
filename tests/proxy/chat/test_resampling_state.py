"""Sampling a choice again after an invalid call, for any split of its tokens into batches."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.apis.chat_events import TOOLS, VALIDATORS, events, request
from tests.support.schemas.residual_calls import before_value
from tests.support.servers.fake_backend import INFO
from tests.support.servers.script import call, tokenize
from toolgate_core import wire
from toolgate_core.deltas import ArgumentsDelta, CallStart, ContentDelta
from toolgate_core.dialects.families.hermes import QWEN3
from toolgate_core.errors import ToolSchemaViolation
from toolgate_core.plan import make_plan
from toolgate_core.tools import parse_tools
from toolgate_proxy.chat.held_calls import CallCheck
from toolgate_proxy.chat.resampling_state import (
    Resample,
    choice_events,
    derived_seed,
    resample_request,
)
from toolgate_proxy.chat.response import ChatResponse, ResponseEvent

INVALID = call("look", '{"a": 1, "a": 2}')  # duplicate members violate any schema
VALID = call("look", {"where": "north of the old stone bridge"})
BEFORE = "I look around.\n" + call("walk", {}) + "\n"


def answer(n: int = 1, budget: int = 500, stop: tuple[str, ...] = ()) -> ChatResponse:
    asked = request(n=n, stop=stop)
    asked = replace(asked, sampling=asked.sampling.model_copy(update={"max_tokens": budget}))
    plan = make_plan(asked, QWEN3)
    check = CallCheck(TOOLS, ["look"], VALIDATORS)
    return ChatResponse(asked, plan, QWEN3, INFO, check, resamples=2)


async def feed(given: ChatResponse, batches: list[list[wire.StreamEvent]]) -> list[ResponseEvent]:
    new: list[ResponseEvent] = []
    for batch in batches:
        new += await given.feed(batch)
        if given.complete:
            break
    return new


def split(sent: list[wire.StreamEvent], cuts: list[int]) -> list[list[wire.StreamEvent]]:
    at = [0, *sorted(cuts), len(sent)]
    return [sent[a:b] for a, b in pairwise(at)]


def texts(new: list[ResponseEvent]) -> tuple[str, str]:
    """The text of the content and of the arguments."""
    deltas = [each.event for each in new]
    return (
        "".join(event.text for event in deltas if isinstance(event, ContentDelta)),
        "".join(event.text for event in deltas if isinstance(event, ArgumentsDelta)),
    )


@pytest.mark.parametrize("stop", [(), ("never",), ("\n\n",)])
@given(cuts=st.lists(st.integers(0, 60), max_size=10))
def test_invalid_calls_are_sampled_again_from_the_same_tokens_for_any_split(
    stop: tuple[str, ...], cuts: list[int]
) -> None:
    given = answer(stop=stop)
    main = events(BEFORE + INVALID + "\n" + VALID)
    new = asyncio.run(feed(given, split(main, cuts)))
    assert texts(new) == ("I look around.", "{}")
    again = given.take_resample()
    assert again is not None
    spent = len(tokenize(BEFORE + INVALID))
    assert again.accepted == tuple(token for token, _ in tokenize(BEFORE))
    assert (again.choice, again.attempt, again.max_tokens) == (0, 1, 500 - spent)
    rest = [[*choice_events(batch, 0)] for batch in split(events(VALID), cuts)]
    new = asyncio.run(feed(given, rest))
    assert texts(new) == ("", '{"where": "north of the old stone bridge"}')
    assert given.take_resample() is None
    assert given.counts.completion == spent + len(tokenize(VALID + "<|im_end|>"))


UNIQUE_TOOLS = parse_tools(
    [
        {
            "type": "function",
            "function": {
                "name": "look",
                "parameters": {
                    "type": "object",
                    "properties": {"at": {"type": "array", "uniqueItems": True}},
                },
            },
        }
    ]
)


@pytest.mark.parametrize("stop", [(), ("never",)])
@given(cuts=st.lists(st.integers(0, 60), max_size=10))
def test_an_invalid_value_is_sampled_again_for_any_split(
    stop: tuple[str, ...], cuts: list[int]
) -> None:
    """The text behind the accepted tokens completes the call, and the client sees all of it."""
    asked = replace(request(stop=stop), tools=UNIQUE_TOOLS)
    check = CallCheck(UNIQUE_TOOLS, ["look"], VALIDATORS)
    given = ChatResponse(asked, make_plan(asked, QWEN3), QWEN3, INFO, check, resamples=6)
    bad, good = (call("look", {"at": ["north", last]}) for last in ("north", "none"))
    asyncio.run(feed(given, split(events("So.\n" + bad), cuts)))
    again = given.take_resample()
    assert again is not None
    kept = len(tokenize("So.\n")) + before_value(bad, "north")
    tokens = [token for token, _ in tokenize("So.\n" + bad)]
    assert again.in_call
    assert (again.accepted, again.excluded) == (tuple(tokens[:kept]), (tokens[kept],))
    rest = events("So.\n" + good)
    sent = [rest[0], *rest[1 + kept :]]
    new: list[ResponseEvent] = []
    for batch in split(sent, cuts):
        new += asyncio.run(given.feed([*choice_events(batch, 0)]))
    starts = [each.event.name for each in new if isinstance(each.event, CallStart)]
    assert (starts, texts(new)[1]) == (["look"], '{"at": ["north", "none"]}')


def test_a_token_is_excluded_once_for_each_failure_at_a_place() -> None:
    asked = replace(request(), tools=UNIQUE_TOOLS)
    check = CallCheck(UNIQUE_TOOLS, ["look"], VALIDATORS)
    given = ChatResponse(asked, make_plan(asked, QWEN3), QWEN3, INFO, check, resamples=6)
    bad = call("look", {"at": ["a", "a"]})
    sent, places = events(bad), []
    for _ in range(6):
        asyncio.run(given.feed(sent))
        again = given.take_resample()
        assert again is not None
        places.append((len(again.accepted), len(again.excluded)))
        sent = [*choice_events(events(bad)[1 + len(again.accepted) :], 0)]
    last, array = before_value(bad, 'a"'), before_value(bad, "[")
    assert places == [(last, 1), (array, 0), (0, 0)] * 2
    with pytest.raises(ToolSchemaViolation, match="After 7 attempts"):
        asyncio.run(given.feed(sent))


def test_an_invalid_last_attempt_is_an_error() -> None:
    given = answer()
    asyncio.run(given.feed(events(INVALID)))
    for attempt in (1, 2):
        again = given.take_resample()
        assert again is not None
        assert again.attempt == attempt
        events_of = [*choice_events(events(INVALID), 0)]
        if attempt == 2:
            with pytest.raises(ToolSchemaViolation):
                asyncio.run(given.feed(events_of))
        else:
            asyncio.run(given.feed(events_of))


def test_the_beginning_of_a_stop_string_is_held_back_until_the_call_is_validated() -> None:
    """The text before the call is held as a possible beginning of the stop string; sampled
    again, the model completes that."""
    given = answer(stop=("END",))
    new = asyncio.run(feed(given, [events("Hello EN" + INVALID)]))
    assert texts(new)[0] == "Hello "
    assert given.take_resample() is not None
    new = asyncio.run(given.feed([*choice_events(events("D and more"), 0)]))
    assert texts(new) == ("", "")
    assert given.complete


def test_usage_excludes_the_longer_prompt_of_a_retry() -> None:
    given = answer()
    first, *rest = [each for each in events(INVALID) if not isinstance(each, wire.UsageEvent)]
    assert isinstance(first, wire.StartEvent)
    tokens = wire.TokensEvent(choice=0, ids=(), texts=(), cached_tokens=16)
    asyncio.run(given.feed([first, tokens, *rest]))
    assert given.take_resample() is not None
    more = tokens.model_copy(update={"cached_tokens": 80})
    asyncio.run(given.feed([*choice_events([more, *events(VALID)[1:-1]], 0)]))
    assert (given.counts.prompt, given.counts.cached) == (first.prompt_tokens, 16)


def test_retry_request_continues_the_choice_with_derived_sampling() -> None:
    first = wire.GenerateRequest(
        request_id="chatcmpl-1",
        model="tiny",
        prompt=wire.TokensPrompt(token_ids=(1,)),
        sampling=wire.Sampling(n=3, seed=5, temperature=0.3, top_k=7, logprobs=2),
        stream=False,
    )
    failed = ToolSchemaViolation("?")
    again = resample_request(first, Resample(2, 1, (4, 5), 77, failed))
    assert again.request_id == "chatcmpl-1-2-1"
    assert again.accepted == (4, 5)
    assert again.stream
    wanted = {"n": 1, "max_tokens": 77, "seed": derived_seed(5, 2, 1)}
    assert again.sampling == first.sampling.model_copy(update=wanted)
    greedy = first.model_copy(update={"sampling": wire.Sampling(temperature=0)})
    again = resample_request(greedy, Resample(0, 1, (), None, failed))
    assert (again.sampling.temperature, again.sampling.seed) == (1.0, derived_seed(0, 0, 1))
    least = wire.Sampling(min_tokens=9, prompt_logprobs=1)
    again = resample_request(
        first.model_copy(update={"sampling": least}), Resample(0, 1, (4, 5), 3, failed)
    )
    assert (again.sampling.min_tokens, again.sampling.prompt_logprobs) == (3, None)
    again = resample_request(
        first.model_copy(update={"sampling": least}), Resample(0, 1, (4, 5), None, failed)
    )
    assert again.sampling.min_tokens == 7
    free = first.model_copy(update={"sampling": wire.Sampling()})
    assert resample_request(free, Resample(0, 1, (), None, failed)).sampling.seed is None


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 127), st.integers(1, 9))
def test_derived_seeds_are_stable_and_differ_by_choice_and_attempt(
    seed: int, choice: int, attempt: int
) -> None:
    derived = derived_seed(seed, choice, attempt)
    assert derived == derived_seed(seed, choice, attempt)
    assert 0 <= derived < 2**63
    others = {derived_seed(seed, choice + 1, attempt), derived_seed(seed, choice, attempt + 1)}
    assert derived not in others
