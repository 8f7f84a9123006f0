"""Conversations of WebSocket connections in memory."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from toolgate_proxy.response_store.connection_turns import ConnectionTurns, Conversations

LIMIT = 100


def kept(turns: ConnectionTurns, size: int) -> ConnectionTurns:
    response: Any = object()
    turns.turns = [response]
    turns.grow(size)
    return turns


def test_conversations_of_a_key_are_bounded_together() -> None:
    conversations = Conversations(LIMIT)
    with ExitStack() as stack:
        first, second, third = (
            stack.enter_context(conversations.connection("a")) for _ in range(3)
        )
        other = kept(stack.enter_context(conversations.connection("b")), LIMIT)
        master = [kept(stack.enter_context(conversations.connection(None)), 90) for _ in range(2)]
        kept(first, 30)
        kept(second, 30)
        kept(first, 10)  # used last
        kept(third, 50)
        assert [bool(each.turns) for each in (first, second, third)] == [True, False, True]
        assert [first.size, second.size, third.size] == [40, 0, 50]
        assert other.turns
        assert all(each.turns for each in master)


def test_a_conversation_above_the_maximum_is_forgotten() -> None:
    with Conversations(LIMIT).connection("a") as turns:
        kept(turns, LIMIT)
        assert turns.turns
        kept(turns, 1)
        assert not turns.turns
        assert turns.size == 0


def test_closed_connections_do_not_count() -> None:
    conversations = Conversations(LIMIT)
    with conversations.connection("a") as first:
        with conversations.connection("a") as second:
            kept(second, 90)
        kept(first, 90)
        assert first.turns
    assert not conversations._of_key
