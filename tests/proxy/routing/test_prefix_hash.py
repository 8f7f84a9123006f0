from __future__ import annotations

from typing import Any

import pytest

from toolgate_proxy.routing.prefix_hash import LEAST, Prefix, prefix_of

LONG = "You are a careful assistant. " * 60
SYSTEM = {"role": "system", "content": LONG}
TOOLS = [{"type": "function", "function": {"name": "f", "description": LONG}}]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def of(**request: Any) -> Prefix:
    found = prefix_of(request)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "first",
    [[SYSTEM, user("Hello.")], [user(LONG)], [user("Hello."), assistant(LONG)], [user(LONG + "?")]],
)
def test_later_turns_begin_as_the_first_one(first: list[Any]) -> None:
    later = [*first, assistant("Hello."), user("And now?"), {"role": "tool", "content": "{}"}]
    assert of(messages=later) == of(messages=first)
    assert of(messages=later, tools=TOOLS) == of(messages=first, tools=TOOLS)


def test_a_conversation_that_grows_long_begins_alike_from_then_on() -> None:
    turns = [user("Hello."), *(assistant(f"{at} " * 50) for at in range(40))]
    found = [prefix_of({"messages": turns[:end]}) for end in range(1, len(turns))]
    assert found[0] is None
    assert len({each for each in found if each is not None}) == 1


@pytest.mark.parametrize(
    "request_",
    [
        {"messages": [SYSTEM, user("A?")]},
        {"messages": [user("A?")], "tools": TOOLS},
        {"messages": [{"role": "developer", "content": LONG}, user("A?")]},
        {"messages": [user("A?")], "system": LONG},
        {"input": "A?", "instructions": LONG},
        {"input": [user("A?")], "tools": TOOLS},
    ],
)
def test_one_head_many_conversations(request_: dict[str, Any]) -> None:
    asked = "input" if "input" in request_ else "messages"
    said = request_[asked]
    another = "B?" if isinstance(said, str) else [*said[:-1], user("B?")]
    one, other = of(**request_), of(**request_ | {asked: another})
    assert one.head == other.head
    assert one.conversation != other.conversation


def test_a_template_in_the_user_s_message_is_a_head() -> None:
    one, other = of(messages=[user(LONG + "A?")]), of(messages=[user(LONG + "B?")])
    assert one.head == other.head
    assert one.conversation != other.conversation


@pytest.mark.parametrize(
    "other",
    [
        {"tools": TOOLS},
        {"cache_salt": "mine"},
        {"messages": [{"role": "system", "content": "!" + LONG}, user("A?")]},
    ],
)
def test_heads_that_differ(other: dict[str, Any]) -> None:
    request = {"messages": [SYSTEM, user("A?")]}
    assert of(**request).head != of(**request | other).head


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"messages": []},
        {"messages": [user("A?")]},
        {"messages": 7},
        {"messages": [None, 7, "A?"]},
        {"input": "A?"},
        {"messages": [user("x" * (LEAST // 2))]},
    ],
)
def test_short_ones_have_none(request_: dict[str, Any]) -> None:
    assert prefix_of(request_) is None


@pytest.mark.parametrize("odd", ["\ud800", 2**70, {1: 2}, b"x", [None]])
def test_nothing_that_a_client_may_send_is_in_the_way(odd: object) -> None:
    assert prefix_of({"messages": [SYSTEM, {"role": "user", "content": odd}], "tools": odd})
