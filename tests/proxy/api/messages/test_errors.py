"""Errors about the context length in the words that clients recognize."""

from __future__ import annotations

import re

import pytest

from tests.support.apis.messages_api import parsed
from toolgate_core.errors import ContextLengthExceeded
from toolgate_proxy.api.messages.surface import Messages

of_tokens = ContextLengthExceeded.of_tokens
CLAUDE_CODE = re.compile(r"prompt is too long[^0-9]*(\d+)\s*tokens?\s*>\s*(\d+)", re.IGNORECASE)


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (
            of_tokens(4096, 100, 4000, param="max_tokens"),
            "input length and `max_tokens` exceed context limit: 100 + 4000 > 4096, decrease input "
            "length or `max_tokens` and try again",
        ),
        (of_tokens(4096, 4096), "prompt is too long: 4096 tokens > 4096 maximum"),
        (of_tokens(4096), "prompt is too long: about 4097 tokens > 4096 maximum"),
        (ContextLengthExceeded("It has 9 bytes."), "prompt is too long: It has 9 bytes."),
    ],
)
def test_the_numbers_are_in_the_message(error: ContextLengthExceeded, shown: str) -> None:
    made = Messages().error(error)["error"]
    assert (made["message"], made["code"]) == (shown, "context_length_exceeded")
    assert made["type"] == "invalid_request_error"


def test_the_tokens_of_a_prompt_that_nobody_counts_are_estimated() -> None:
    """Claude Code drops turns by the difference of the numbers before it tries again."""
    long = parsed([{"role": "user", "content": "word " * 40_000}])
    message = Messages().error(of_tokens(4096), long)["error"]["message"]
    numbers = CLAUDE_CODE.search(message)
    assert numbers is not None, message
    prompt, context = map(int, numbers.groups())
    assert context == 4096
    assert 40_000 <= prompt <= 60_000
