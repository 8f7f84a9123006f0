"""Names of turns: the same for a turn that comes back, never the same for two conversations."""

from __future__ import annotations

from typing import Any

from toolgate_proxy.kept_reasoning.service import TurnNames

RANDOM = "call_abcdefghijklmnopqrstuvwx"
ASKED = [{"role": "user", "content": "Look at a."}]


def name(before: list[dict[str, Any]], call_id: str, model: str = "m", tool: str = "look") -> str:
    return TurnNames(model, before).name(len(before), call_id, tool)


def test_the_gateways_ids_need_no_conversation() -> None:
    """Clients may shorten what was before."""
    assert name(ASKED, RANDOM) == name([], RANDOM)
    assert name([], RANDOM) != name([], RANDOM[:-1] + "y")


def test_the_id_of_the_messages_api_is_the_same() -> None:
    assert name([], RANDOM) == name([], RANDOM.replace("call_", "toolu_"))


def test_models_are_apart() -> None:
    assert name([], RANDOM) != name([], RANDOM, model="other")


def test_counted_ids_are_told_apart_by_the_conversation() -> None:
    counted = "functions.look:0"
    assert name(ASKED, counted) == name([dict(ASKED[0])], counted)
    assert name(ASKED, counted) != name([{"role": "user", "content": "Look at b."}], counted)
    assert name(ASKED, counted) != name(ASKED, "functions.look:1")


def test_reasoning_before_is_no_part_of_the_conversation() -> None:
    """It is what clients drop."""
    call = {"id": "functions.look:0", "function": {"name": "look", "arguments": "{}"}}
    turn = {"role": "assistant", "content": None, "tool_calls": [call]}
    thought = {**turn, "reasoning_content": "Hm"}
    assert name([*ASKED, turn], "functions.look:1") == name([*ASKED, thought], "functions.look:1")


def test_a_turn_has_the_same_name_among_the_turns_after_it() -> None:
    messages = [{"role": role, "content": f"{at}"} for at, role in enumerate(["user", "tool"] * 3)]
    turns = TurnNames("m", messages)
    for at in (1, 1, 3, 6):
        assert turns.name(at, "functions.look:0", "look") == name(messages[:at], "functions.look:0")
