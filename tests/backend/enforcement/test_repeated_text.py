"""What followed the last tokens of a text where they occurred before."""

from __future__ import annotations

import pytest

from toolgate_backend.enforcement.jump_forward import RepeatedText

PROMPT = [1, 2, 3, 4, 5, 2, 3, 9, 258, 65537, 7]


@pytest.mark.parametrize(
    ("output", "last", "expected"),
    [
        ([2, 3], [], [4, 5, 2]),  # the first of two places
        ([2], [3], [4, 5, 2]),
        ([], [5, 2, 3], [9, 258, 65537]),  # a longer end is more certain
        ([9], [258], [65537, 7, 9]),
        ([4], [], []),  # one token is too few
        ([8, 8], [], []),
        ([6, 6, 6], [], [6]),  # in the response itself
        ([256], [1], []),  # their bytes are in the text, at another place
        ([], [], []),
    ],
)
def test_text_after_the_last_tokens(
    output: list[int], last: list[int], expected: list[int]
) -> None:
    text = RepeatedText(PROMPT)
    text.update(output[:1])
    text.update(output)
    assert text.following(last, 3) == expected


def test_a_text_without_a_prompt_has_nothing_to_repeat() -> None:
    text = RepeatedText([])
    assert text.following([1, 2], 3) == []
    text.update([1])
    assert text.following([], 3) == []
