"""Histories that are damaged, or that another service has written."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.apis.messages_api import LOOK, parsed
from toolgate_core.errors import UnsupportedParameter
from toolgate_proxy.sealing import OwnerSeal, Sealer

from .test_messages import assistant, called, messages_of, result, text, thinking, use, user


def changes_of(*given: Any) -> list[tuple[str, str]]:
    return [(change.kind, change.path) for change in parsed([*given]).history_changes]


def test_thinking_of_another_model_or_key_is_left_out() -> None:
    """What was changed can't be told from what belongs to another key."""
    block = thinking("hm")
    at = len(block["signature"]) // 2
    changed = "A" if block["signature"][at] != "A" else "B"
    signature = block["signature"][:at] + changed + block["signature"][at + 1 :]
    foreign = [
        {"type": "thinking", "thinking": "hm", "signature": "EqQBCkYIBxgCKkBZ"},
        {"type": "thinking", "thinking": "hm", "signature": ""},
        {"type": "thinking", "thinking": "hm"},
        {"type": "redacted_thinking", "data": "EmwKAhgB"},
        thinking("hm", OwnerSeal(Sealer(b"another fleet"), "team a")),
        thinking("hm", OwnerSeal(Sealer(b"secret"), "team b")),
        block | {"signature": signature},
    ]
    given = [user("a"), assistant(*foreign, text("b")), user("c")]
    assert messages_of(*given)[1] == {"role": "assistant", "content": "b"}
    assert changes_of(*given) == [
        ("left_out", f"messages[1].content[{at}]") for at in range(len(foreign))
    ]


@pytest.mark.parametrize(
    "blocks",
    [[], [text("")], [{"type": "thinking", "thinking": "hm", "signature": ""}]],
    ids=["no blocks", "an empty text", "thinking of another model"],
)
def test_a_turn_of_the_assistant_may_be_empty(blocks: list[Any]) -> None:
    given = [user("a"), {"role": "assistant", "content": blocks}, user("b")]
    assert messages_of(*given) == [{"role": "user", "content": [text("a"), text("b")]}]


@pytest.mark.parametrize(
    ("given", "arguments", "changes"),
    [
        ("", "{}", []),
        (None, "{}", []),
        ('{"a": 1}', '{"a": 1}', []),
        ('{"a": ', "{}", ["arguments"]),
        ([], "{}", ["arguments"]),
    ],
)
def test_an_input_that_is_no_object(given: Any, arguments: str, changes: list[str]) -> None:
    messages = [user("a"), assistant({**use(), "input": given}), user(result())]
    assert messages_of(*messages)[1]["tool_calls"] == [called("toolu_1", arguments)]
    assert [kind for kind, _ in changes_of(*messages)] == changes


def test_blocks_of_server_tools_are_results_or_are_left_out() -> None:
    used = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "advisor", "input": {}}
    advice = {"type": "advisor_result", "text": "do it"}
    advised = {"type": "advisor_tool_result", "tool_use_id": "srvtoolu_1", "content": advice}
    failed = {"type": "web_fetch_tool_result", "tool_use_id": "srvtoolu_2", "content": []}
    given = [user("a"), assistant(text("Hm."), used, advised, failed, text("ok")), user("go")]
    first, asked, result_, said, last = messages_of(*given)
    assert (asked["content"], result_["content"], said["content"]) == ("Hm.", "do it", "ok")
    (call,) = asked["tool_calls"]
    assert call["function"] == {"name": "advisor", "arguments": "{}"}
    assert result_["tool_call_id"] == call["id"]
    assert (first["content"], last["content"]) == ("a", "go")
    assert {*changes_of(*given)} == {
        ("left_out", "messages[1].content[1]"),
        ("as_text", "messages[1].content[2]"),
        ("left_out", "messages[1].content[3]"),
    }


def test_a_system_message_may_only_change_the_effort() -> None:
    changed = {"role": "system", "content": [], "output_config": {"effort": "low"}}
    given = [user("a"), changed, user("b")]
    assert messages_of(*given) == messages_of(user("a"), user("b"))
    assert changes_of(*given) == [("left_out", "messages[1].output_config")]


def test_what_sdks_dump_is_accepted() -> None:
    said = {**text("ok"), "citations": None}
    by_program = {**use(), "caller": {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}}
    for call in (use(caller={"type": "direct"}), use(caller=None), by_program):
        given = [user("a"), assistant(said, call), user(result(content=None, is_error=None))]
        assert messages_of(*given)[-1]["content"] == ""
        assert changes_of(*given) == []


def test_a_part_of_a_result_that_can_not_be_shown_is_named_to_the_model() -> None:
    file = {"type": "document", "source": {"type": "file", "file_id": "f"}}
    content = [text("a"), file, {"type": "chart", "title": "T"}]
    given = [user("a"), assistant(use()), user(result(content=content))]
    assert messages_of(*given)[-1]["content"] == [text("a"), text("[document left out]"), text("T")]
    assert {*changes_of(*given)} == {
        ("left_out", "messages[2].content[0].content[1]"),
        ("as_text", "messages[2].content[0].content[2]"),
    }


def test_unknown_blocks_and_members_of_earlier_turns_are_left_out() -> None:
    """They are errors in the latest turn only."""
    odd = {"type": "hologram", "text": "A cat.", "depth": 3}
    call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}, "mood": "calm"}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "7", "took": 3}
    earlier = [
        {"role": "user", "content": [{"type": "text", "text": "hi", "tone": "kind"}, odd]},
        {"role": "assistant", "content": [call], "model": "other"},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": [{"type": "text", "text": "It is 7.", "certain": True}]},
    ]
    asked = parsed([*earlier, {"role": "user", "content": "Why?"}], tools=[LOOK])
    assert [message["role"] for message in asked.messages] == [
        *("user", "assistant", "tool", "assistant", "user")
    ]
    assert "A cat." in str(asked.messages[0]["content"])
    assert {(each.kind, each.path) for each in asked.history_changes} == {
        ("left_out", "messages[0].content[0].tone"),
        ("as_text", "messages[0].content[1]"),
        ("left_out", "messages[1].content[0].mood"),
        ("left_out", "messages[1].model"),
        ("left_out", "messages[2].content[0].took"),
        ("left_out", "messages[3].content[0].certain"),
    }
    with pytest.raises(UnsupportedParameter) as refused:
        parsed([*earlier, {"role": "user", "content": [odd]}], tools=[LOOK])
    assert refused.value.param == "messages[4].content[0].type"
