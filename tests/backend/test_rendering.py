from __future__ import annotations

import pytest

from toolgate_backend.rendering import reasoning_start
from toolgate_core.wire import MarkIds, ReasoningMode

MARKS = MarkIds(reasoning_begin=3, reasoning_end=4, end_of_turn=(5,))


@pytest.mark.parametrize(
    ("prompt", "mode", "start"),
    [
        ([9, 5, 9], "default", "may"),
        ([9, 5, 9], "on", "must"),
        ([9, 5, 9], "off", "closed"),
        ([9, 5, 9, 3, 9], "default", "open"),
        ([9, 5, 9, 3, 9], "on", "open"),
        ([9, 5, 9, 3, 9], "off", "open"),
        ([9, 5, 9, 3, 9, 4, 9], "default", "closed"),
        ([9, 5, 9, 3, 9, 4, 9], "off", "closed"),
        ([9, 3, 9, 4, 9, 5, 9], "default", "may"),  # an earlier turn's reasoning
    ],
)
def test_where_the_answer_begins(prompt: list[int], mode: ReasoningMode, start: str) -> None:
    assert reasoning_start(prompt, MARKS, mode) == start


def test_a_model_without_reasoning_marks_never_reasons() -> None:
    assert reasoning_start([1, 2], MarkIds(end_of_turn=(5,)), "default") == "closed"
