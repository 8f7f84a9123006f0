"""Errors about the context length in the words that clients recognize."""

from __future__ import annotations

import pytest

from toolgate_core.errors import ContextLengthExceeded
from toolgate_proxy.api.messages.errors import context_message
from toolgate_proxy.api.messages.surface import Messages

BUDGET = (
    "This model's context length is 4096 tokens. The prompt takes {} and max_tokens is {}. Shorten "
    "the messages or lower max_tokens."
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            BUDGET.format(100, 4000),
            "input length and `max_tokens` exceed context limit: 100 + 4000 > 4096, decrease input "
            "length or `max_tokens` and try again",
        ),
        (BUDGET.format(4096, 1), "prompt is too long: 4096 tokens > 4096 maximum"),
        (
            "This model's maximum context length is 4096 tokens. However, your request has 4,500 "
            "input tokens.",
            "prompt is too long: 4500 tokens > 4096 maximum",
        ),
        ("It has 9 bytes.", "prompt is too long: It has 9 bytes."),
    ],
)
def test_the_numbers_are_in_the_message(text: str, shown: str) -> None:
    assert context_message(text) == shown
    error = Messages().error(ContextLengthExceeded(text, param="messages"))["error"]
    assert (error["message"], error["code"]) == (shown, "context_length_exceeded")
