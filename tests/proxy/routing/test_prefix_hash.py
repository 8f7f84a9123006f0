"""Hashes of prompt prefixes: which prompts share them."""

from __future__ import annotations

from typing import Any

import pytest

from toolgate_proxy.routing.prefix_hash import (
    MIN_BYTES,
    PrefixHashes,
    hash_prefixes,
    hash_request,
)

LONG = "You are a careful assistant. " * 60
SYSTEM = {"role": "system", "content": LONG}
TOOLS = [{"type": "function", "function": {"name": "f", "description": LONG}}]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def hashes(**request: Any) -> PrefixHashes:
    result = hash_prefixes(request)
    assert result is not None
    return result


@pytest.mark.parametrize(
    "first",
    [[SYSTEM, user("Hello.")], [user(LONG)], [user("Hello."), assistant(LONG)], [user(LONG + "?")]],
)
def test_later_turns_have_the_same_hashes_as_the_first(first: list[Any]) -> None:
    later = [*first, assistant("Hello."), user("And now?"), {"role": "tool", "content": "{}"}]
    assert hashes(messages=later) == hashes(messages=first)
    assert hashes(messages=later, tools=TOOLS) == hashes(messages=first, tools=TOOLS)


def test_hashes_do_not_change_as_a_long_conversation_grows() -> None:
    turns = [user("Hello."), *(assistant(f"{at} " * 50) for at in range(40))]
    result = [hash_prefixes({"messages": turns[:end]}) for end in range(1, len(turns))]
    assert result[0] is None
    assert len({each for each in result if each is not None}) == 1


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
def test_conversations_with_the_same_system_prompt_share_the_head_hash(
    request_: dict[str, Any],
) -> None:
    field = "input" if "input" in request_ else "messages"
    turns = request_[field]
    another = "B?" if isinstance(turns, str) else [*turns[:-1], user("B?")]
    one, other = hashes(**request_), hashes(**request_ | {field: another})
    assert one.head == other.head
    assert one.conversation != other.conversation


def test_long_user_messages_with_the_same_beginning_share_the_head_hash() -> None:
    one, other = hashes(messages=[user(LONG + "A?")]), hashes(messages=[user(LONG + "B?")])
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
def test_different_tools_salts_or_system_prompts_have_different_head_hashes(
    other: dict[str, Any],
) -> None:
    request = {"messages": [SYSTEM, user("A?")]}
    assert hashes(**request).head != hashes(**request | other).head


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"messages": []},
        {"messages": [user("A?")]},
        {"messages": 7},
        {"messages": [None, 7, "A?"]},
        {"input": "A?"},
        {"messages": [user("x" * (MIN_BYTES // 2))]},
    ],
)
def test_short_prompts_have_no_hashes(request_: dict[str, Any]) -> None:
    assert hash_prefixes(request_) is None


@pytest.mark.parametrize("odd", ["\ud800", 2**70, {1: 2}, b"x", [None]])
def test_unusual_values_are_hashed_without_error(odd: object) -> None:
    assert hash_prefixes({"messages": [SYSTEM, {"role": "user", "content": odd}], "tools": odd})


def test_marks_of_the_messages_api_do_not_change_the_hashes() -> None:
    """Clients move `cache_control` to the last message, and Claude Code numbers its requests."""
    mark = {"cache_control": {"type": "ephemeral"}}

    def turn(at: int, **marked: Any) -> dict[str, Any]:
        billing = {"type": "text", "text": f"x-anthropic-billing-header: cch={at};"}
        system = [billing, {"type": "text", "text": LONG, **mark}]
        first = {"role": "user", "content": [{"type": "text", "text": "Hello.", **marked}]}
        return {"system": system, "messages": [first], "tools": [{**TOOLS[0], **marked}]}

    assert hashes(**turn(1, **mark)) == hashes(**turn(2))
    other = turn(1)
    other["messages"][0]["content"][0]["text"] = "Bye."
    assert hashes(**other) != hashes(**turn(1))


def with_key(key: object, owner: str = "team a", **request: Any) -> PrefixHashes | None:
    return hash_request({"prompt_cache_key": key, **request}, owner=owner)


def test_deferred_tools_do_not_change_the_hashes() -> None:
    messages = [SYSTEM, user("Hello.")]
    found = {**TOOLS[0], "name": "found", "defer_loading": True}
    assert hashes(messages=messages, tools=[*TOOLS, found]) == hashes(
        messages=messages, tools=TOOLS
    )
    shop = [{"type": "namespace", "name": "shop", "tools": TOOLS}]
    larger = [{**shop[0], "tools": [*TOOLS, found]}]
    assert hashes(messages=messages, tools=larger) == hashes(messages=messages, tools=shop)


@pytest.mark.parametrize("key", [None, "", 7, ["k"]])
def test_without_a_key_the_prefix_decides(key: object) -> None:
    """A key that is no string is an error of the parser."""
    long, short = {"messages": [SYSTEM, user("A?")]}, {"messages": [user("A?")]}
    assert with_key(key, **long) == hash_request(long, owner="team a")
    assert with_key(key, **short) is None


def test_a_key_takes_the_place_of_the_head() -> None:
    long = {"messages": [SYSTEM, user("A?")]}
    one, other = with_key("k", **long), with_key("k", messages=[user(LONG + "?")])
    assert one is not None
    assert other is not None
    assert one.head == other.head != hashes(**long).head
    without = hash_request(long, owner="team a")
    assert without is not None
    assert one.conversation == without.conversation
    assert other.conversation != one.conversation


def test_owners_have_hashes_of_their_own_unless_they_share_the_caches() -> None:
    long, owners = {"messages": [SYSTEM, user("A?")]}, ("", "team a", "team b", "key a")
    own = {hash_request(long, owner=owner) for owner in owners}
    assert len(own) == len(owners)
    shared = {hash_request(long, owner=owner, shared=True) for owner in owners}
    assert shared == {hash_prefixes(long)}
    keyed = {hash_request(long | {"prompt_cache_key": "k"}, owner=o, shared=True) for o in owners}
    assert len(keyed) == len(owners), "the keys of clients are never shared"


def test_a_key_counts_for_short_prompts() -> None:
    first = with_key("k", messages=[user("A?")])
    assert first is not None
    assert with_key("k", input="B?") == first
    assert first.head == first.conversation


@pytest.mark.parametrize(("key", "owner"), [("l", "team a"), ("k", "team b"), ("k", "")])
def test_keys_and_owners_have_hashes_of_their_own(key: str, owner: str) -> None:
    request = {"messages": [user("A?")]}
    assert with_key(key, owner, **request) != with_key("k", **request)


def test_unusual_keys_are_hashed_without_error() -> None:
    assert with_key("\ud800", input="A?") != with_key("\0" * 2000, input="A?")
