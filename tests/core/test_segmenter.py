"""The segmenter over hand-made tokens, and stop strings: one id a mark, text is ordinary tokens."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.dialects.golden_tokens import joined_deltas
from toolgate_core.deltas import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    Finish,
    ReasoningDelta,
)
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.errors import EnforcementFailed
from toolgate_core.segmenter import Segmenter, StopStrings
from toolgate_core.wire import MarkIds

QWEN3 = DIALECTS["qwen3"]
MARKS = MarkIds(
    tokens={"<tool_call>": 1, "</tool_call>": 2, "<think>": 3, "</think>": 4},
    end_of_turn=(5, 6),
    failure=7,
)
MARK_TEXTS = {1: "<tool_call>", 2: "</tool_call>", 3: "<think>", 4: "</think>", 5: "<|im_end|>"}
ORDINARY = 100
DEEP = "[" * 10_000
"""Nested deeper than Python's JSON parser goes."""

Token = tuple[int, str]


def mark(token):
    return token, MARK_TEXTS[token]


def text(*pieces):
    return [(ORDINARY, piece) for piece in pieces]


def call(name, *arguments):
    head = f'\n{{"name": "{name}", "arguments": '
    return [mark(1), *text(head, *arguments, "}", "\n"), mark(2)]


def run(tokens, *, reason="stop", splits=(), **how):
    segmenter = Segmenter(QWEN3, MARKS, **how)
    events = []
    bounds = [0, *sorted(min(s, len(tokens)) for s in splits), len(tokens)]
    for begin, end in pairwise(bounds):
        part = tokens[begin:end]
        events += segmenter.feed([i for i, _ in part], [t for _, t in part])
    return joined_deltas(events + segmenter.finish(reason))


def test_content_without_calls_keeps_its_white_space():
    assert run([*text(" a\n", "\nb", " \n"), mark(5)]) == [
        ContentDelta(" a\n\nb \n"),
        Finish("stop"),
    ]


def test_arguments_are_streamed_in_fragments():
    segmenter = Segmenter(QWEN3, MARKS)
    tokens = call("a", '{"city": ', '"Par', 'is"', "}")
    shown = [segmenter.feed([i], [t]) for i, t in tokens]
    fragments = [e.text for events in shown for e in events if isinstance(e, ArgumentsDelta)]
    assert len(fragments) >= 4
    assert "".join(fragments) == '{"city": "Paris"}'


@pytest.mark.parametrize(
    ("cut", "shown"),
    [
        (text('\n{"name": "a'), []),
        (text('\n{"name": "a", "arguments": ', '{"x": 1'), ['{"x": 1']),
        (text('\n{"name": "a", "arguments": ', '{"x": 1}'), ['{"x": 1}']),
        (text('\n{"name": "a", "arguments": ', '{"x": 1}', "}"), ['{"x": 1}']),
        (text('\n{"name": "a", "arguments": ', '{"x": 1}', "}\n"), ['{"x": 1}']),
        (text('\n{"name": "a", "arguments": ', '{"x": ', DEEP), ['{"x": ' + DEEP]),
    ],
    ids=["name", "arguments", "whole", "tail", "line", "deep"],
)
def test_a_truncated_call_has_arguments_without_the_envelope(cut, shown):
    events = run([mark(1), *cut], reason="length")
    assert [e.text for e in events if isinstance(e, ArgumentsDelta)] == shown
    whole = shown == ['{"x": 1}']
    assert events[-1] == Finish("length", call=None if whole else "cut")
    # Arguments that are whole have ended, and are looked at like those of any other call.
    assert any(isinstance(e, CallEnd) for e in events) == whole


@pytest.mark.parametrize(
    ("tokens", "how"),
    [
        ([mark(1), *text('\n{"name": "a", "arguments": {'), mark(5)], {}),  # ended in a call
        ([mark(3), *text("hm"), mark(5)], {}),  # ended inside the reasoning
        ([*text("hi"), mark(2)], {}),  # a mark out of its place
        ([mark(3), mark(1)], {}),  # a call inside the reasoning
        ([*call("a", "{"), mark(5)], {}),  # unparseable arguments
        ([*call("a", "[]"), mark(5)], {}),  # arguments that are no object
        ([*text("hi"), mark(5)], {"required": True}),  # without the required call
        (text("hi"), {"reason": "abort"}),  # of the engine
        (text("hi"), {"reason": "error"}),
    ],
)
def test_what_masks_never_allow_is_an_error(tokens, how):
    with pytest.raises(EnforcementFailed):
        run(tokens, **how)


def test_the_failure_token_raises_enforcement_failed():
    segmenter = Segmenter(QWEN3, MARKS)
    segmenter.feed([ORDINARY, 7], ["hi", ""])
    with pytest.raises(EnforcementFailed):
        segmenter.finish("stop", 7)


pieces = st.lists(st.text(alphabet='ab \n{}"<>é', max_size=4), max_size=6)
arguments = st.dictionaries(st.text(max_size=4), st.text(max_size=6), max_size=2)


@st.composite
def answers(draw):
    tokens = []
    if draw(st.booleans()):
        tokens += [mark(3), *text(*draw(pieces)), mark(4), *text("\n\n")]
    tokens += text(*draw(pieces))
    for index in range(draw(st.integers(0, 3))):
        whole = json.dumps(draw(arguments))
        at = draw(st.integers(0, len(whole)))
        tokens += text("\n") if index else []
        tokens += call(f"tool{index}", whole[:at], whole[at:])
    return [*tokens, mark(5)]


@given(answers(), st.lists(st.integers(0, 60), max_size=8), st.sampled_from(["stop", "length"]))
def test_any_split_gives_the_same_events(tokens, splits, reason):
    assert run(tokens, reason=reason, splits=tuple(splits)) == run(tokens, reason=reason)


@given(answers(), st.integers(0, 40))
def test_a_truncated_response_is_a_prefix_of_the_complete_one(tokens, at):
    """A truncated response contains no text that the complete one lacks."""

    def shown(events):
        return "".join(
            f"[{e.name}]" if isinstance(e, CallStart) else getattr(e, "text", "") for e in events
        )

    whole = shown(run(tokens))
    cut = shown(run(tokens[:at], reason="length"))
    assert whole.startswith(cut.rstrip()) or whole.startswith(cut)


def shown(stops, pieces):
    stop = StopStrings(stops)
    events = [e for piece in pieces for e in stop.filter([ContentDelta(piece)])]
    events += stop.filter([Finish("stop")])
    return "".join(e.text for e in events if isinstance(e, ContentDelta)), stop.hit


@pytest.mark.parametrize(
    ("stops", "pieces", "expected"),
    [
        (["END", "E"], ["a", "E", "ND b"], ("a", "E")),  # the first complete one
        (["\n\nUser:"], ["hi\n", "\nUs", "er: x"], ("hi", "\n\nUser:")),  # over several deltas
        (["END"], ["E", "N", "d"], ("ENd", None)),  # its beginning only
    ],
)
def test_a_stop_string_ends_the_content(stops, pieces, expected):
    assert shown(stops, pieces) == expected


def test_stop_strings_in_reasoning_and_arguments_are_ignored():
    events = [ReasoningDelta("END"), ArgumentsDelta(0, "END")]
    stop = StopStrings(["END"])
    assert stop.filter(events) == events
    assert stop.hit is None


@given(
    st.text(alphabet="ab", max_size=20),
    st.lists(st.text(alphabet="ab", min_size=1, max_size=3), min_size=1, max_size=3),
    st.lists(st.integers(0, 20), max_size=6),
)
def test_any_split_of_the_content_stops_at_the_same_place(text, stops, cuts):
    bounds = [0, *sorted(min(c, len(text)) for c in cuts), len(text)]
    pieces = [text[a:b] for a, b in pairwise(bounds)]
    assert shown(stops, pieces)[0] == shown(stops, list(text))[0]
