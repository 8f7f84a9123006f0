"""Compacted conversations: what a summary replaces and what stays, and that only their owner opens
them."""

import base64
from typing import Any

import pytest

from toolgate_proxy.features.compaction.compacted import (
    Division,
    Summary,
    divided,
    divided_whole,
    opened,
    sealed,
    shown,
)
from toolgate_proxy.sealing import OwnerSeal, Sealer

Json = dict[str, Any]
SYSTEM: Json = {"role": "system", "content": "Be brief."}


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def said(text: str) -> Json:
    return {"role": "assistant", "content": text}


def call(call_id: str) -> Json:
    function = {"name": "look", "arguments": "{}"}
    calls = [{"id": call_id, "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id: str, text: str = "Seen.") -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


@pytest.mark.parametrize(
    ("messages", "end", "recent"),
    [
        # whole turns before the last one
        ([SYSTEM, user("a"), said("b"), user("c")], 3, (3,)),
        # the steps of the last turn but the newest; the user's message is summarized and stays
        ([user("a"), call("1"), result("1"), call("2"), result("2")], 3, (0, 3, 4)),
        ([user("a"), call("1"), result("1"), call("2")], 3, (0, 3)),
        ([user("a"), said("b"), user("c"), call("1"), result("1"), said("d")], 5, (2, 5)),
    ],
)
def test_calls_stay_with_their_results(messages, end, recent):
    assert divided(messages, 0) == Division(end, recent)
    opened = bool(messages[-1].get("tool_calls"))
    assert divided_whole(messages) == Division(len(messages) - opened, recent)


@pytest.mark.parametrize(
    ("messages", "end", "recent"),
    [
        ([SYSTEM, user("a")], 2, ()),
        ([user("a"), said("b")], 2, ()),
        ([user("a"), call("1")], 1, (1,)),
    ],
)
def test_a_demanded_summary_replaces_the_last_turn_as_well(messages, end, recent):
    assert divided(messages, 0) is None
    assert divided_whole(messages) == Division(end, recent)


@pytest.mark.parametrize("messages", [[], [SYSTEM], [call("1")]])
def test_there_may_be_nothing_to_replace(messages):
    assert divided(messages, 0) is divided_whole(messages) is None


def test_recent_turns_stay_within_a_budget():
    turns = [user("a" * 400), said("b" * 400)]
    messages = [*turns, *turns, *turns, user("c")]
    assert divided(messages, 150) == Division(6, (6,))
    assert divided(messages, 300) == Division(4, (4, 5, 6))
    assert divided(messages, 10_000) is None


def test_a_summary_is_part_of_the_next_message_of_the_user():
    summary = shown("It was {long}.")
    assert Summary("It was {long}.").messages() == [user(summary)]
    made = Summary("It was {long}.", (user("c"), call("1"))).messages()
    assert made == [user(f"{summary}\n\nc"), call("1")]
    parts = [{"type": "text", "text": "c"}]
    [first] = Summary("It was {long}.", ({"role": "user", "content": parts},)).messages()
    assert first["content"] == [{"type": "text", "text": summary}, *parts]


def test_system_messages_stay_and_those_of_users_that_the_client_keeps():
    roles = ["system", "user", "assistant", "tool", "system", "user"]
    assert Summary("x").remaining(roles) == [0]
    assert Summary("x", keeps_users=True).remaining(roles) == [0, 1, 4, 5]


SEALER = Sealer(b"secret")
SEAL = OwnerSeal(SEALER, "team a")
MADE = Summary("Half a pair: \ud83d.", ({"role": "user", "content": "é"},), keeps_users=True)


def test_the_owner_opens_what_was_sealed():
    text = sealed(MADE, SEAL)
    assert opened(text, SEAL) == MADE
    assert b"Half" not in base64.b64decode(text)


def test_nobody_else_opens_it_and_nothing_else_opens():
    text = sealed(MADE, SEAL)
    for seal in (None, OwnerSeal(SEALER, "team b"), OwnerSeal(Sealer(b"other"), "team a")):
        assert opened(text, seal) is None
    of_reasoning = SEAL.seal_text("{}", purpose="thinking")
    for other in (None, 5, "", "no base64", "aGVsbG8=", of_reasoning):
        assert opened(other, SEAL) is None
