"""Dropping of the oldest turns of a conversation that is too long."""

from __future__ import annotations

from typing import Any

import pytest

from toolgate_core import wire
from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import ContextLengthExceeded
from toolgate_core.wire import TOOL_DEFINITIONS
from toolgate_proxy.chat.request.shortening import droppable, fitted

WORDS = {
    "s": {"role": "system", "content": "s"},
    "u": {"role": "user", "content": "u"},
    "a": {"role": "assistant", "content": "a"},
    "c": {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}, {"id": "2"}]},
    "t": {"role": "tool", "content": "t", "tool_call_id": "1"},
    "d": {"role": "tool", "content": [{"type": TOOL_DEFINITIONS, "tools": []}]},
}


def messages(text: str) -> tuple[dict[str, Any], ...]:
    return tuple(WORDS[letter] for letter in text)


def units(text: str) -> list[str]:
    return ["".join(text[at] for at in unit) for unit in droppable(messages(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("u", []),
        ("suau", ["ua"]),
        ("ssuauctau", ["ua", "ucta"]),
        ("au", ["a"]),
        ("suacttctta", ["a", "ctt", "ctt"]),
        ("uauctt", ["ua"]),
        ("sctta", ["ctt"]),
        ("s", []),
        ("usau", ["usa"]),
        ("suaucdauau", ["ua", "ua"]),
        ("sucdctcta", ["ct", "ct"]),
        ("", []),
    ],
)
def test_calls_stay_with_their_results_and_the_newest_part_remains(
    text: str, expected: list[str]
) -> None:
    assert units(text) == expected


@pytest.mark.parametrize(
    ("context", "kept"), [(14, "suauctau"), (13, "suctau"), (12, "suctau"), (11, "su"), (1, "su")]
)
async def test_as_few_turns_as_necessary_are_dropped(context: int, kept: str) -> None:
    """A message has one token. Six are left for the response."""
    text = "suauctau"
    request = ChatRequest(
        request_id="x",
        model="tiny",
        messages=messages(text),
        message_paths=tuple(f"input[{at}]" for at in range(len(text))),
        sampling=wire.Sampling(max_tokens=6),
    )

    async def count(asked: ChatRequest) -> int:
        if len(asked.messages) > context:
            raise ContextLengthExceeded("too long", param="messages")
        return len(asked.messages)

    shorter = await fitted(request, count, context)
    assert shorter.messages == messages(kept)
    first, *rest = shorter.message_paths
    assert first == "input[0]"
    assert rest == [f"input[{at}]" for at in range(len(text) - len(rest), len(text))]
