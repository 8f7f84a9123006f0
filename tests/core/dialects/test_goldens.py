"""The segmenter reads the goldens of every dialect, and calls that real chat templates write."""

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from tests.core.dialects.made_up_family import SANDPIPER
from tests.support.dialects.golden_tokens import (
    ORDINARY,
    GoldenTokens,
    ended_calls,
    finish_of,
    joined,
    joined_deltas,
    message_of,
    two_way_splits,
)
from tests.support.effort import repeats, rotating
from toolgate_core.deltas import ContentDelta, Finish, ReasoningDelta
from toolgate_core.dialects.dialect import Golden, Json
from toolgate_core.dialects.marks import mark_texts
from toolgate_core.dialects.registry import DIALECTS, SHAPES
from toolgate_core.segmenter import Segmenter
from toolgate_core.wire import MarkIds

ROWS = json.loads(Path(__file__).with_name("goldens.json").read_text())

WITH_CALLS = [dialect for dialect in DIALECTS.values() if dialect.calls]
JSON_ARGUMENTS = [each for each in WITH_CALLS if each.calls and isinstance(each.calls.codec, Json)]
CASES = [
    pytest.param(dialect, golden, id=f"{dialect.name}-{at}")
    for dialect in [*WITH_CALLS, SANDPIPER]
    for at, golden in enumerate(dialect.goldens)
]
MARKS = pytest.mark.parametrize(
    "special", [True, False], ids=["marks_are_tokens", "marks_are_text"]
)


def tokens_of(dialect, special):
    return GoldenTokens(dialect, mark_texts(dialect) if special else ())


@MARKS
@rotating("dialect, golden", CASES, one_in=2)
def test_the_segmenter_finds_the_message(dialect, golden, special):
    found = tokens_of(dialect, special)
    events = found.segment(golden, [joined(found.units(golden.text))])
    assert message_of(events) == replace(golden, text="", reasoning_open=False)
    assert ended_calls(events) == len(golden.calls)
    assert events[-1] == finish_of(golden)


@MARKS
@rotating("dialect, golden", CASES, one_in=9)
def test_tokens_of_the_reasoning_count_however_many_arrive_together(dialect, golden, special):
    found = tokens_of(dialect, special)
    units = found.units(golden.text)
    counted = []
    for size in (1, 3, len(units)):
        segmenter = found.segmenter(golden)
        for at in range(0, len(units), size):
            ids, texts = zip(*units[at : at + size], strict=True)
            segmenter.feed(ids, texts)
        counted.append(segmenter.reasoning_tokens)
    assert len({*counted}) == 1, counted


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "special",
    [pytest.param(True, marks=pytest.mark.slow), False],
    ids=["marks_are_tokens", "marks_are_text"],
)
@rotating("dialect, golden", CASES, one_in=7)
def test_events_do_not_depend_on_the_tokens(dialect, golden, special):
    found = tokens_of(dialect, special)
    units = found.units(golden.text)
    whole = found.segment(golden, [joined(units)])
    assert found.segment(golden, [units]) == whole, "a token for each character"
    step = repeats(2, nightly=1)  # other goldens of the form are split at other places
    splits = enumerate(two_way_splits(units), start=1)
    for at, parts in islice(splits, len(units) % step, None, step):
        assert found.segment(golden, parts) == whole, f"split at {at}"


@rotating("dialect, golden", CASES, one_in=3)
def test_a_message_that_is_cut_after_a_mark_is_the_beginning_of_the_whole(dialect, golden):
    """The text that ends a part of the message may have begun."""
    found = tokens_of(dialect, special=True)
    tokens = joined(found.units(golden.text))
    for at in range(1, len(tokens)):
        if tokens[at - 1][0] == ORDINARY:
            continue
        events = found.segment(golden, [tokens[:at]], cut=True)
        assert isinstance(events[-1], Finish)
        assert events[-1].reason == "length"
        content = "".join(each.text for each in events if isinstance(each, ContentDelta))
        reasoning = "".join(each.text for each in events if isinstance(each, ReasoningDelta))
        assert (golden.content or "").startswith(content.rstrip())
        assert (golden.reasoning or "").startswith(reasoning.rstrip())


TYPES = {str, int, bool, list, dict}


def missing(dialect):
    """The kinds of transcripts that the dialect can write and has no golden of."""
    calls, goldens = dialect.calls, dialect.goldens
    assert calls is not None
    all_values = [{*map(type, call.arguments.values())} for each in goldens for call in each.calls]
    after_content = not calls.only_at_start and (
        not dialect.content.begin or bool(dialect.content.preamble)
    )
    wanted = {
        "a call with all types of values": any(types >= TYPES for types in all_values),
        "a call without arguments": any(not c.arguments for each in goldens for c in each.calls),
        "two calls": not calls.parallel or any(len(each.calls) > 1 for each in goldens),
        "content, then a call": not after_content
        or any(each.content and each.calls for each in goldens),
        "reasoning, then a call": not dialect.reasoning
        or any(each.reasoning and each.calls for each in goldens),
        "an id": not calls.ids or all(call.id for each in goldens for call in each.calls),
    }
    return [kind for kind, found in wanted.items() if not found]


@pytest.mark.parametrize("dialect", JSON_ARGUMENTS, ids=lambda dialect: dialect.name)
def test_there_is_a_golden_of_each_kind(dialect):
    assert missing(dialect) == []


@pytest.mark.parametrize("dialect", WITH_CALLS, ids=lambda dialect: dialect.name)
def test_models_shape_and_source_are_named(dialect):
    assert dialect.models
    assert dialect.source
    assert dialect.shape in SHAPES
    assert all(limit.endswith(".") for limit in dialect.all_limits)


GRANITE = DIALECTS["granite33"]
TOKENS = GoldenTokens(GRANITE, ())


def content_of(text):
    golden = Golden(text=f"<think>So.</think>{text}")
    found = message_of(TOKENS.segment(golden, [TOKENS.units(golden.text)]))
    assert found.reasoning == "So."
    return found.content


@pytest.mark.parametrize(("text", "content"), ROWS["the_texts_around_the_content_are_not_content"])
def test_the_texts_around_the_content_are_not_content(text, content):
    assert content_of(text) == content


def test_without_reasoning_the_text_is_content():
    golden = Golden(text="Done.</response>")
    found = message_of(TOKENS.segment(golden, [TOKENS.units(golden.text)]))
    assert found.content == "Done.</response>"


def test_content_that_max_tokens_cuts_loses_nothing():
    segmenter = Segmenter(GRANITE, MarkIds(end_of_turn=(1,)), reasoning_open=True)
    events = segmenter.feed([2], ["So.</think><response>Done.</resp"])
    events += segmenter.finish("length")
    assert joined_deltas(events)[1:] == [ContentDelta("Done.</resp"), Finish("length")]
