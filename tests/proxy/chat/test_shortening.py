"""Conversations that are too long: edits clear results of old calls and reasoning of old turns, and
the oldest turns are dropped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgate_core import wire
from toolgate_core.errors import ContextLengthExceeded
from toolgate_core.wire import TOOL_DEFINITIONS
from toolgate_proxy.chat.preparation import droppable, fitted
from toolgate_proxy.features.compaction.edits import (
    BYTES_PER_TOKEN,
    CLEARED,
    ClearThinking,
    ClearToolUses,
    edited,
    without_old_reasoning,
    without_old_results,
)
from toolgate_proxy.request.chat_request import ChatRequest

Message = dict[str, Any]
USES, THINKING = "clear_tool_uses_20250919", "clear_thinking_20251015"
LONG = "word " * 200


def user(text: str = "hi") -> Message:
    return {"role": "user", "content": text}


def turn(*names: str, thought: str | None = None, ids: Sequence[str] = ()) -> list[Message]:
    """A message with calls, and their results."""
    ids = ids or [f"{name}-{at}" for at, name in enumerate(names)]
    calls = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": '{"a": 1}'}}
        for call_id, name in zip(ids, names, strict=True)
    ]
    message: Message = {"role": "assistant", "content": None, "tool_calls": calls}
    if thought is not None:
        message["reasoning_content"] = thought
    results = [{"role": "tool", "tool_call_id": call_id, "content": LONG} for call_id in ids]
    return [message, *results]


def said(text: str | None = "Done.", thought: str | None = None) -> Message:
    message: Message = {"role": "assistant", "content": text}
    return message if thought is None else {**message, "reasoning_content": thought}


def contents(messages: Sequence[Message]) -> str:
    """The results: `-` for one that was cleared."""
    results = [message["content"] for message in messages if message["role"] == "tool"]
    return "".join("-" if content == CLEARED else "+" for content in results)


def asked(messages: Sequence[Message], output: int = 10) -> ChatRequest:
    sampling = wire.Sampling(max_tokens=output)
    return ChatRequest("x", "tiny", tuple(messages), sampling=sampling)


class Counter:
    """A token is a byte of text; reasoning is not in the prompt."""

    def __init__(self, context: int = 10**6) -> None:
        self.context = context
        self.asked: list[int] = []

    async def __call__(self, request: ChatRequest) -> int:
        tokens = sum(len(str(message["content"])) for message in request.messages)
        self.asked.append(tokens)
        if tokens > self.context:
            raise ContextLengthExceeded.of_tokens(self.context)
        return tokens


HISTORY = [user(), *turn("look"), *turn("look", "walk"), *turn("walk"), said(), user()]
AGAIN = [user(), *turn("look", ids=["0"]), *turn("walk", ids=["0"])]
"""With an id that is used again: another call."""
OPEN = [*HISTORY, *turn("walk")[:1]]
"""With a call that has no result."""


@pytest.mark.parametrize(
    ("history", "keep", "excluded", "expected"),
    [
        (HISTORY, None, (), "-+++"),
        (HISTORY, 0, (), "----"),
        (HISTORY, 1, (), "---+"),
        (HISTORY, 4, (), "++++"),
        (HISTORY, 9, (), "++++"),
        (HISTORY, 0, ("look",), "++--"),
        (HISTORY, 1, ("walk",), "--++"),
        (HISTORY, 1, ("look", "walk"), "++++"),
        (AGAIN, 1, (), "-+"),
        (OPEN, 3, (), "-+++"),
    ],
)
def test_results_of_old_calls_are_cleared(history, keep, excluded, expected):
    kept = {} if keep is None else {"keep": keep}
    edit = ClearToolUses(USES, excluded=frozenset(excluded), **kept)
    messages, cleared = without_old_results(tuple(history), edit)
    assert contents(messages) == expected
    assert cleared == expected.count("-")
    assert [m["role"] for m in messages] == [m["role"] for m in history]
    assert "-" not in contents(history), "the request itself stays as it is"


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [(False, []), (True, ["look", "look", "walk"]), (frozenset({"walk"}), ["walk"])],
)
def test_arguments_of_these_calls_are_cleared_on_request(inputs, expected):
    edit = ClearToolUses(USES, keep=1, inputs=inputs)
    messages, _ = without_old_results(tuple(HISTORY), edit)
    calls = [call["function"] for message in messages for call in message.get("tool_calls", ())]
    assert [call["name"] for call in calls if call["arguments"] == "{}"] == expected
    assert all(isinstance(json.loads(call["arguments"]), dict) for call in calls)


def test_definitions_of_tools_stay():
    defined = {"type": TOOL_DEFINITIONS, "tools": []}
    search, result = turn("search")
    found = {**result, "content": [{"type": "text", "text": LONG}, defined]}
    messages, cleared = without_old_results((user(), search, found), ClearToolUses(USES, keep=0))
    assert messages[-1]["content"] == [{"type": "text", "text": CLEARED}, defined]
    assert cleared == 1


THOUGHTS = [
    user(),
    *turn("look", thought="one"),
    user("<system-reminder>"),
    *turn("look", thought="still one"),
    said("a", "one again"),
    user(),
    said("b"),
    user(),
    said(None, "three"),
    user(),
    said("d", "four"),
    user(),
]


@pytest.mark.parametrize(
    ("keep", "kept", "cleared"),
    [
        (1, ["four"], 2),
        (2, ["three", "four"], 1),
        (3, ["three", "four"], 1),
        (4, ["one", "still one", "one again", "three", "four"], 0),
        (0, [], 3),
        (None, ["one", "still one", "one again", "three", "four"], 0),
    ],
)
def test_reasoning_of_old_turns_is_cleared(keep, kept, cleared):
    """A message of the user that follows a result does not end the turn."""
    messages, turns = without_old_reasoning(tuple(THOUGHTS), ClearThinking(THINKING, keep))
    found = [m["reasoning_content"] for m in messages if "reasoning_content" in m]
    assert (found, turns) == (kept, cleared)
    for message in messages:
        assert message["content"] is not None or {"tool_calls", "reasoning_content"} & {*message}


SIZE = 4 * len(LONG) + 2 * len("hi") + len("Done.") + 3 * len("None")
SAVED = 3 * (len(LONG) - len(CLEARED))


@pytest.mark.parametrize(
    ("fields", "output", "applies"),
    [
        ({}, 10, False),
        ({"trigger": SIZE}, 10, False),
        ({"trigger": SIZE - 1}, 10, True),
        ({"trigger": 4, "unit": "tool_uses"}, 10, False),
        ({"trigger": 3, "unit": "tool_uses"}, 10, True),
        ({"trigger": 0, "at_least": SAVED}, 10, True),
        ({"trigger": 0, "at_least": SAVED + 1}, 10, False),
        ({}, 10**6 - SIZE, False),
        ({}, 10**6 - SIZE + 1, True),
    ],
    ids=str,
)
async def test_an_edit_applies_when_it_is_due(fields, output, applies):
    edit = ClearToolUses(USES, keep=1, **fields)
    made, found = await edited(asked(HISTORY, output=output), (edit,), Counter(), 10**6)
    if not applies:
        assert (made.messages, found) == (tuple(HISTORY), [])
        return
    assert contents(made.messages) == "---+"
    [applied] = found
    assert (applied.edit, applied.cleared, applied.tokens) == (edit, 3, SAVED)


async def test_a_prompt_beyond_the_context_is_edited_and_its_tokens_are_estimated():
    edit = ClearToolUses(USES, keep=1, at_least=100)
    _, [applied] = await edited(asked(HISTORY), (edit,), Counter(2000), 2000)
    assert applied.tokens == SAVED // BYTES_PER_TOKEN


async def test_edits_apply_one_after_the_other_and_cost_no_count_if_they_are_not_due():
    edits = (ClearThinking(THINKING), ClearToolUses(USES, trigger=0))
    counter = Counter()
    _, made = await edited(asked([*THOUGHTS, *HISTORY]), edits, counter, 10**6)
    assert [(each.edit.type, each.cleared) for each in made] == [
        (THINKING, 3), (USES, 3)
    ]  # fmt: skip
    assert len(counter.asked) == 3, "before, between and after"
    counter = Counter()
    _, made = await edited(asked([user(), *turn("look"), user()]), edits, counter, 10**6)
    assert (counter.asked, made) == ([], [])


turns = st.lists(
    st.one_of(
        st.just([user()]),
        st.builds(lambda thought: [said("x", thought)], st.none() | st.just("hm")),
        st.lists(st.sampled_from(["look", "walk"]), min_size=1, max_size=3).map(
            lambda names: turn(*names, thought="hm")
        ),
    ),
    max_size=12,
)


@given(turns=turns, keep=st.integers(0, 5), inputs=st.booleans())
async def test_calls_and_results_stay_together(turns, keep, inputs):
    messages = [message for each in turns for message in each]
    edits = (ClearThinking(THINKING, keep), ClearToolUses(USES, 0, keep=keep, inputs=inputs))
    first, made = await edited(asked(messages), edits, Counter(), 10**6)
    assert await edited(asked(messages), edits, Counter(), 10**6) == (first, made)
    assert len(first.messages) == len(messages)
    for before, after in zip(messages, first.messages, strict=True):
        assert before["role"] == after["role"]
        ids = [[call["id"] for call in each.get("tool_calls", ())] for each in (before, after)]
        assert ids[0] == ids[1]
        assert before.get("tool_call_id") == after.get("tool_call_id")
    results = contents(first.messages)
    assert results[len(results) - min(keep, len(results)) :] == "+" * min(keep, len(results))


WORDS = {
    "s": {"role": "system", "content": "s"},
    "u": user("u"),
    "a": said("a"),
    "c": {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}, {"id": "2"}]},
    "t": {"role": "tool", "content": "t", "tool_call_id": "1"},
    "d": {"role": "tool", "content": [{"type": TOOL_DEFINITIONS, "tools": []}]},
}


def spelt(text: str) -> tuple[Message, ...]:
    return tuple(WORDS[letter] for letter in text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("u", ""),
        ("suau", "ua"),
        ("ssuauctau", "ua ucta"),
        ("au", "a"),
        ("suacttctta", "a ctt ctt"),
        ("uauctt", "ua"),
        ("sctta", "ctt"),
        ("s", ""),
        ("usau", "usa"),
        ("suaucdauau", "ua ua"),
        ("sucdctcta", "ct ct"),
        ("", ""),
    ],
)
def test_calls_stay_with_their_results_and_the_newest_part_remains(text, expected):
    units = ["".join(text[at] for at in unit) for unit in droppable(spelt(text))]
    assert " ".join(units) == expected


@pytest.mark.parametrize(
    ("context", "kept"), [(14, "suauctau"), (13, "suctau"), (12, "suctau"), (11, "su"), (1, "su")]
)
async def test_as_few_turns_as_necessary_are_dropped(context, kept):
    """A message has one token. Six are left for the response."""
    text = "suauctau"
    request = ChatRequest(
        request_id="x",
        model="tiny",
        messages=spelt(text),
        message_paths=tuple(f"input[{at}]" for at in range(len(text))),
        sampling=wire.Sampling(max_tokens=6),
    )

    async def count(asked: ChatRequest) -> int:
        if len(asked.messages) > context:
            raise ContextLengthExceeded("too long", param="messages")
        return len(asked.messages)

    shorter = await fitted(request, count, context)
    assert shorter.messages == spelt(kept)
    first, *rest = shorter.message_paths
    assert first == "input[0]"
    assert rest == [f"input[{at}]" for at in range(len(text) - len(rest), len(text))]
