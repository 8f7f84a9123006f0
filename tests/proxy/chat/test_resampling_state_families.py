"""Sampling a call again in every family, after calls that were sent to the client."""

from __future__ import annotations

import pytest

from tests.support.dialects.golden_tokens import GoldenTokens
from toolgate_core.deltas import CallEnd
from toolgate_core.dialects.dialect import Dialect, Golden
from toolgate_core.dialects.mark_texts import mark_texts
from toolgate_core.dialects.registry import DIALECTS
from toolgate_proxy.chat.calls import InvalidCall
from toolgate_proxy.chat.resampling_state import ResamplingState, Sampled
from toolgate_proxy.validation.validator import Violation

SEVERAL_CALLS = [
    pytest.param(dialect, golden, id=f"{dialect.name}-{at}")
    for dialect in DIALECTS.values()
    for at, golden in enumerate(dialect.goldens)
    if len(golden.calls) > 1
]
NOT_JSON = Violation(pointer="", keyword="", schema_pointer="")
"""After it, the whole call is sampled again."""


@pytest.mark.parametrize("special", [True, False], ids=["marks_are_tokens", "marks_are_text"])
@pytest.mark.parametrize(("dialect", "golden"), SEVERAL_CALLS)
def test_the_last_call_is_sampled_again_without_those_before_it(
    dialect: Dialect, golden: Golden, special: bool
) -> None:
    tokens = GoldenTokens(dialect, mark_texts(dialect) if special else ())
    segmenter = tokens.segmenter(golden)
    state = ResamplingState(0, max_attempts=9, budget=None)
    ended: list[int] = []
    """The number of tokens at the end of each call."""
    fed: list[int] = []
    units = list(tokens.units(golden.text))
    for token, text in units:
        sampled = Sampled(token, text)
        state.note(sampled, segmenter, None)
        events = sampled.feed(segmenter)
        state.note_written(0)
        fed.append(token)
        ended += [len(fed)] * sum(isinstance(event, CallEnd) for event in events)
        if len(ended) == len(golden.calls):
            break
    again = state.after(InvalidCall("f", NOT_JSON, ""), spent=0)
    restored, _, events = state.restored()
    assert ended[-2] <= len(again.accepted) < ended[-1]
    assert list(again.accepted) == fed[: len(again.accepted)]
    assert events == []
    rest = units[len(again.accepted) : len(fed)]
    following = [event for token, text in rest for event in Sampled(token, text).feed(restored)]
    calls = [event.index for event in following if isinstance(event, CallEnd)]
    assert calls == [len(golden.calls) - 1]
