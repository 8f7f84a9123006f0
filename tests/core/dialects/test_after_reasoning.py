"""The text between reasoning and content, and the text that ends content after reasoning."""

from __future__ import annotations

import pytest

from tests.support.dialects.golden_tokens import GoldenTokens, joined_deltas, message_of
from toolgate_core.deltas import ContentDelta, Event, Finish
from toolgate_core.dialects.dialect import Golden
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.segmenter import Segmenter
from toolgate_core.wire import MarkIds

GRANITE = DIALECTS["granite33"]
TOKENS = GoldenTokens(GRANITE, ())


def content_of(text: str) -> str | None:
    golden = Golden(text=f"<think>So.</think>{text}")
    found = message_of(TOKENS.segment(golden, [TOKENS.units(golden.text)]))
    assert found.reasoning == "So."
    return found.content


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("<response>Done.</response>", "Done."),
        ("<response>Done.</response>\n", "Done."),
        ("<response>Done.", "Done."),
        ("Done.</response>", "Done."),
        ("<b>Done.</b>", "<b>Done.</b>"),
        ("<res", "<res"),
        ("<response>a </response> b</response>", "a </response> b"),
        ("<response></response>", None),
    ],
)
def test_the_texts_around_the_content_are_not_content(text: str, content: str | None) -> None:
    assert content_of(text) == content


def test_without_reasoning_the_text_is_content() -> None:
    golden = Golden(text="Done.</response>")
    found = message_of(TOKENS.segment(golden, [TOKENS.units(golden.text)]))
    assert found.content == "Done.</response>"


def test_content_that_max_tokens_cuts_loses_nothing() -> None:
    segmenter = Segmenter(GRANITE, MarkIds(end_of_turn=(1,)), reasoning_open=True)
    events: list[Event] = segmenter.feed([2], ["So.</think><response>Done.</resp"])
    events += segmenter.finish("length")
    assert joined_deltas(events)[1:] == [ContentDelta("Done.</resp"), Finish("length")]
