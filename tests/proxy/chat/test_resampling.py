"""Sampling a choice again after an invalid call, for any split of its tokens into batches, and in
every family after calls that were sent to the client."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.apis.chat_events import TOOLS, VALIDATORS, events, request
from tests.support.dialects.golden_tokens import GoldenTokens
from tests.support.effort import rotating
from tests.support.schemas.residual_calls import TAGS, before_value
from tests.support.servers.fake_backend import INFO
from tests.support.servers.script import call, tokenize
from toolgate_core import wire
from toolgate_core.deltas import ArgumentsDelta, CallEnd, CallStart, ContentDelta
from toolgate_core.dialects.marks import mark_texts
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.errors import ToolSchemaViolation
from toolgate_core.pointer import escape
from toolgate_core.tools import Tool, parse_tools
from toolgate_proxy.chat.calls import CallCheck, InvalidCall
from toolgate_proxy.chat.preparation import PreparedRequest
from toolgate_proxy.chat.resampling_state import (
    Resample,
    ResamplingState,
    SampledToken,
    choice_events,
    derived_seed,
    resample_request,
    value_starts,
)
from toolgate_proxy.chat.response import ChatResponse, ResponseEvent
from toolgate_proxy.request.plan import make_plan
from toolgate_proxy.validation.validator import Violation

QWEN3 = DIALECTS["qwen3"]
INVALID = call("look", '{"a": 1, "a": 2}')  # duplicate members violate any schema
VALID = call("look", {"where": "north of the old stone bridge"})
BEFORE = "I look around.\n" + call("walk", {}) + "\n"
UNIQUE_TOOLS = parse_tools([TAGS])
CUTS = st.lists(st.integers(0, 60), max_size=10)


def answer(
    stop: tuple[str, ...] = (), tools: tuple[Tool, ...] = TOOLS, resamples: int = 2
) -> ChatResponse:
    asked = replace(request(stop=stop), tools=tools, sampling=wire.Sampling(max_tokens=500))
    found = PreparedRequest(asked, INFO, QWEN3, make_plan(asked, QWEN3))
    residual = ["look"] if tools is TOOLS else ["set_tags"]
    return ChatResponse(found, CallCheck(tools, residual, VALIDATORS), resamples)


def feed(
    given: ChatResponse, sent: list[wire.StreamEvent], cuts: list[int], *, again: bool = False
) -> list[ResponseEvent]:
    """What the response makes of the batches; `again`: of a choice that is sampled again."""
    new: list[ResponseEvent] = []
    for first, last in pairwise([0, *sorted(cuts), len(sent)]):
        batch = sent[first:last]
        new += asyncio.run(given.feed([*choice_events(batch, 0)] if again else batch))
        if given.complete:
            break
    return new


def texts(new: list[ResponseEvent]) -> tuple[str, str]:
    """The text of the content and of the arguments."""
    deltas = [each.event for each in new]
    return (
        "".join(event.text for event in deltas if isinstance(event, ContentDelta)),
        "".join(event.text for event in deltas if isinstance(event, ArgumentsDelta)),
    )


def taken(given: ChatResponse) -> Resample:
    again = given.take_resample()
    assert again is not None
    return again


@pytest.mark.parametrize("stop", [(), ("never",), ("\n\n",)])
@given(cuts=CUTS)
def test_invalid_calls_are_sampled_again_from_the_same_tokens_for_any_split(stop, cuts):
    given = answer(stop)
    new = feed(given, events(BEFORE + INVALID + "\n" + VALID), cuts)
    assert texts(new) == ("I look around.", "{}")
    again, spent = taken(given), len(tokenize(BEFORE + INVALID))
    assert again.accepted == tuple(token for token, _ in tokenize(BEFORE))
    assert (again.choice, again.attempt, again.max_tokens) == (0, 1, 500 - spent)
    new = feed(given, events(VALID), cuts, again=True)
    assert texts(new) == ("", '{"where": "north of the old stone bridge"}')
    assert given.take_resample() is None
    assert given.counts.completion == spent + len(tokenize(VALID + "<|im_end|>"))


@pytest.mark.parametrize("stop", [(), ("never",)])
@given(cuts=CUTS)
def test_an_invalid_value_is_sampled_again_for_any_split(stop, cuts):
    """The text behind the accepted tokens completes the call, and the client sees all of it."""
    given = answer(stop, UNIQUE_TOOLS, resamples=6)
    bad, good = (call("set_tags", {"tags": ["north", last]}) for last in ("north", "none"))
    feed(given, events("So.\n" + bad), cuts)
    again = taken(given)
    kept = len(tokenize("So.\n")) + before_value(bad, "north")
    tokens = [token for token, _ in tokenize("So.\n" + bad)]
    assert again.in_call
    assert (again.accepted, again.excluded) == (tuple(tokens[:kept]), (tokens[kept],))
    rest = events("So.\n" + good)
    new = feed(given, [rest[0], *rest[1 + kept :]], cuts, again=True)
    starts = [each.event.name for each in new if isinstance(each.event, CallStart)]
    assert (starts, texts(new)[1]) == (["set_tags"], '{"tags": ["north", "none"]}')


def test_a_token_is_excluded_once_for_each_failure_at_a_place():
    given = answer(tools=UNIQUE_TOOLS, resamples=6)
    bad = call("set_tags", {"tags": ["a", "a"]})
    sent, places = events(bad), []
    for _ in range(6):
        feed(given, sent, [])
        again = taken(given)
        places.append((len(again.accepted), len(again.excluded)))
        sent = [*choice_events(events(bad)[1 + len(again.accepted) :], 0)]
    last, array = before_value(bad, 'a"'), before_value(bad, "[")
    assert places == [(last, 1), (array, 0), (0, 0)] * 2
    with pytest.raises(ToolSchemaViolation, match="After 7 attempts"):
        feed(given, sent, [])


def test_an_invalid_last_attempt_is_an_error():
    given = answer()
    feed(given, events(INVALID), [])
    assert taken(given).attempt == 1
    feed(given, events(INVALID), [], again=True)
    assert taken(given).attempt == 2
    with pytest.raises(ToolSchemaViolation):
        feed(given, events(INVALID), [], again=True)


def test_the_beginning_of_a_stop_string_is_held_back_until_the_call_is_validated():
    """The text before the call is held as a possible beginning of the stop string; sampled
    again, the model completes that."""
    given = answer(stop=("END",))
    assert texts(feed(given, events("Hello EN" + INVALID), []))[0] == "Hello "
    taken(given)
    assert texts(feed(given, events("D and more"), [], again=True)) == ("", "")
    assert given.complete


def test_usage_excludes_the_longer_prompt_of_a_retry():
    given = answer()
    first, *rest = [each for each in events(INVALID) if not isinstance(each, wire.UsageEvent)]
    assert isinstance(first, wire.StartEvent)
    tokens = wire.TokensEvent(choice=0, ids=(), texts=(), cached_tokens=16)
    feed(given, [first, tokens, *rest], [])
    taken(given)
    more = tokens.model_copy(update={"cached_tokens": 80})
    feed(given, [more, *events(VALID)[1:-1]], [], again=True)
    assert (given.counts.prompt, given.counts.cached) == (first.prompt_tokens, 16)


FIRST = wire.GenerateRequest(
    request_id="chatcmpl-1", model="tiny", prompt=wire.TokensPrompt(token_ids=(1,)), stream=False
)
RANDOM = wire.Sampling(n=3, seed=5, temperature=0.3, top_k=7, logprobs=2)
LEAST = wire.Sampling(min_tokens=9, prompt_logprobs=1)
GREEDY = wire.Sampling(temperature=0)


@pytest.mark.parametrize(
    ("sampling", "choice", "accepted", "budget", "wanted"),
    [
        (RANDOM, 2, (4, 5), 77, RANDOM.model_dump() | {
            "n": 1, "max_tokens": 77, "seed": derived_seed(5, 2, 1),
        }),
        (GREEDY, 0, (), None, {"temperature": 1.0, "seed": derived_seed(0, 0, 1)}),
        (LEAST, 0, (4, 5), 3, {"min_tokens": 3, "prompt_logprobs": None}),
        (LEAST, 0, (4, 5), None, {"min_tokens": 7}),
        (wire.Sampling(), 0, (), None, {"seed": None}),
    ],
    ids=["random", "greedy", "a small budget", "min_tokens", "no seed"],
)  # fmt: skip
def test_retry_request_continues_the_choice_with_derived_sampling(
    sampling, choice, accepted, budget, wanted
):
    first = FIRST.model_copy(update={"sampling": sampling})
    failed = ToolSchemaViolation("?")
    again = resample_request(first, Resample(choice, 1, accepted, budget, failed))
    assert again.request_id == f"chatcmpl-1-{choice}-1"
    assert again.accepted == accepted
    assert again.stream
    made = again.sampling.model_dump()
    assert {name: made[name] for name in wanted} == wanted


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 127), st.integers(1, 9))
def test_derived_seeds_are_stable_and_differ_by_choice_and_attempt(seed, choice, attempt):
    derived = derived_seed(seed, choice, attempt)
    assert derived == derived_seed(seed, choice, attempt)
    assert 0 <= derived < 2**63
    others = {derived_seed(seed, choice + 1, attempt), derived_seed(seed, choice, attempt + 1)}
    assert derived not in others


SEVERAL_CALLS = [
    pytest.param(dialect, golden, special, id=f"{dialect.name}-{at}-{kind}")
    for dialect in DIALECTS.values()
    for at, golden in enumerate(dialect.goldens)
    if len(golden.calls) > 1
    for special, kind in ((True, "tokens"), (False, "texts"))
]
NOT_JSON = Violation(pointer="", keyword="", schema_pointer="")
"""After it, the whole call is sampled again."""


@rotating("dialect, golden, special", SEVERAL_CALLS, one_in=2)
def test_the_last_call_is_sampled_again_without_those_before_it(dialect, golden, special):
    """`special`: whether the marks are tokens."""
    tokens = GoldenTokens(dialect, mark_texts(dialect) if special else ())
    segmenter = tokens.segmenter(golden)
    state = ResamplingState(0, max_attempts=9, budget=None, with_content=False)
    ended: list[int] = []
    """The number of tokens at the end of each call."""
    fed: list[int] = []
    units = list(tokens.units(golden.text))
    for token, text in units:
        sampled = SampledToken(token, text)
        state.note(sampled, segmenter, None, in_call=segmenter.in_call)
        deltas = sampled.feed(segmenter)
        state.note_written(0)
        fed.append(token)
        ended += [len(fed)] * sum(isinstance(event, CallEnd) for event in deltas)
        if len(ended) == len(golden.calls):
            break
    again = state.after(InvalidCall("f", NOT_JSON, ""), spent=0)
    restored, _, deltas = state.restored()
    assert ended[-2] <= len(again.accepted) < ended[-1]
    assert list(again.accepted) == fed[: len(again.accepted)]
    assert deltas == []
    rest = units[len(again.accepted) : len(fed)]
    following = [each for token, text in rest for each in SampledToken(token, text).feed(restored)]
    calls = [event.index for event in following if isinstance(event, CallEnd)]
    assert calls == [len(golden.calls) - 1]


NESTED = '{"a": {"b/c": [1, "two", {"d": null}]}, "e" : -3.5e1 , "f": []}'


@pytest.mark.parametrize(
    ("text", "pointer", "expected"),
    [
        (NESTED, "", ["[]}", '{"a"']),
        (NESTED, "/a", ["null}]", '{"b/c"']),
        (NESTED, "/a/b~1c", ["null}]", "[1, "]),
        (NESTED, "/a/b~1c/1", ['two", {']),
        (NESTED, "/e", ["-3.5e1 ,"]),
        (NESTED, "/f", ["[]}"]),
        (NESTED, "/a/missing", ["null}]", '{"b/c"']),
        (NESTED, "/e/0", ["-3.5e1 ,"]),
        ('{"a": 1, "a": 2}', "/a", ["2}"]),
    ],
)
def test_the_last_decision_comes_before_the_value_itself(text, pointer, expected):
    starts = value_starts(text, pointer)
    assert len(starts) == len(expected)
    pairs = zip(expected, starts, strict=True)
    assert all(text.startswith(begin, each.offset) for begin, each in pairs)


@pytest.mark.parametrize("text", ["", "{", '{"a": ', '{"a" 1}', "[1,]", "nonsense"])
def test_text_that_is_not_json_has_no_starts_or_some_inside_it(text):
    assert all(0 <= each.offset <= len(text) for each in value_starts(text, "/a"))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(values, st.sampled_from([None, 1]), st.data())
def test_each_value_is_found(value, indent, data):
    text, pointer, at = json.dumps(value, indent=indent), "", value
    while isinstance(at, dict | list) and at and data.draw(st.booleans()):
        step = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        pointer, at = f"{pointer}/{escape(str(step))}", at[step]
    start = value_starts(text, pointer)[-1]
    begin = start.offset - isinstance(at, str)
    found, _ = json.JSONDecoder().raw_decode(text, begin)
    assert (found, start.scalar) == (at, not isinstance(at, dict | list))
