"""Events and messages: valid by Anthropic's models, and streamed equal to whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from orjson import dumps

from tests.support.apis.chat_events import answer_to, events, fed
from tests.support.apis.messages_api import (
    LOOK,
    SEAL,
    WALK,
    BlockGrammar,
    accumulated,
    check_error,
    check_message,
    parsed,
    streamed,
    streamed_and_whole,
)
from tests.support.apis.read_responses import read_events
from tests.support.servers.script import call
from toolgate_core.context_edits import AppliedEdit, ClearThinking, ClearToolUses
from toolgate_core.errors import BackendLost
from toolgate_proxy.api.messages.conversation.signature import verified
from toolgate_proxy.api.messages.surface import Messages
from toolgate_proxy.api.surface import Client
from toolgate_proxy.litellm_host.callbacks.response_forms import completion_of

LONG = {"where": "north of the old stone bridge, past the second mill, left at the oak tree"}
TOOLS = [LOOK, WALK]
EAGER = [{**tool, "eager_input_streaming": True} for tool in TOOLS]
THINKING = {"type": "enabled", "budget_tokens": 1024}
OMITTED = {"type": "adaptive", "display": "omitted"}
REASONED = "<think>\nLet me see.\n</think>\n\nHello"
ANSWERS: dict[str, tuple[dict[str, Any], Any]] = {
    "text": ({}, events("Hello there")),
    "nothing": ({}, events("")),
    "hidden thinking": ({}, events(REASONED)),
    "thinking": ({"thinking": THINKING}, events(REASONED)),
    "omitted thinking": ({"thinking": OMITTED}, events(REASONED)),
    "thinking only": (
        {"thinking": THINKING},
        events("hm, hm", finish="length", reasoning_open=True),
    ),
    "a call": ({"tools": TOOLS}, events(call("look", LONG))),
    "an eager call": ({"tools": EAGER}, events(call("look", LONG))),
    "thinking, text and calls": (
        {"tools": TOOLS, "thinking": THINKING},
        events("<think>hm</think>\n\nI look.\n" + call("look", LONG) + "\n" + call("walk", {})),
    ),
    "a required call": (
        {"tools": TOOLS, "tool_choice": {"type": "any"}},
        events(call("walk", {"to": "é"})),
    ),
    "a named call": (
        {"tools": EAGER, "tool_choice": {"type": "tool", "name": "walk"}},
        events(call("walk", {})),
    ),
    "a cut call": ({"tools": TOOLS}, events(call("look", LONG)[:60], finish="length")),
    "a cut eager call": ({"tools": EAGER}, events(call("look", LONG)[:60], finish="length")),
    "a cut call after a whole one": (
        {"tools": EAGER},
        events(call("walk", {}) + "\n" + call("look", LONG)[:60], finish="length"),
    ),
    "cut text": ({}, events("Hello", finish="length")),
    "token ids": ({"return_token_ids": True}, events("Hello there")),
    "a stop sequence": (
        {"stop_sequences": ["bridge"]},
        events("Over the old bridge and far away"),
    ),
    "line ends": ({}, events("a\u2028b\u2029c\u0085d\n\ne")),
    "edits": ({"context_management": {"edits": []}}, events("Hello")),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ANSWERS)
@settings(deadline=None, max_examples=25)
@given(cuts=st.lists(st.integers(0, 80), max_size=8))
def test_streamed_equals_whole_for_any_split(name: str, cuts: list[int]) -> None:
    params, sent = ANSWERS[name]
    made, whole = streamed_and_whole(parsed(**params), sent, cuts)
    check_message(whole)
    assert accumulated(made) == whole


@pytest.mark.parametrize(
    ("name", "kinds", "reason"),
    [
        ("text", ["text"], "end_turn"),
        ("nothing", [], "end_turn"),
        ("hidden thinking", ["text"], "end_turn"),
        ("thinking", ["thinking", "text"], "end_turn"),
        ("thinking only", ["thinking"], "max_tokens"),
        ("thinking, text and calls", ["thinking", "text", "tool_use", "tool_use"], "tool_use"),
        ("a required call", ["tool_use"], "tool_use"),
        ("a named call", ["tool_use"], "tool_use"),
        ("a cut call", [], "max_tokens"),
        ("a cut eager call", [], "max_tokens"),
        ("a cut call after a whole one", ["tool_use"], "max_tokens"),
        ("cut text", ["text"], "max_tokens"),
        ("a stop sequence", ["text"], "stop_sequence"),
    ],
)
def test_blocks_in_order_and_the_reason_of_the_end(
    name: str, kinds: list[str], reason: str
) -> None:
    params, sent = ANSWERS[name]
    _, whole = streamed_and_whole(parsed(**params), sent)
    assert [block["type"] for block in whole["content"]] == kinds
    assert whole["stop_reason"] == reason
    assert whole["stop_sequence"] == ("bridge" if reason == "stop_sequence" else None)


def test_text_before_a_stop_sequence_is_the_text() -> None:
    _, whole = streamed_and_whole(*_of("a stop sequence"))
    assert whole["content"] == [{"type": "text", "text": "Over the old "}]


@pytest.mark.parametrize("name", ["a cut call", "a cut eager call"])
def test_a_cut_call_is_never_shown_as_whole(name: str) -> None:
    """Clients parse incomplete input, so that it looks like that of a call."""
    made, whole = streamed_and_whole(*_of(name))
    assert whole["toolgate"] == {"last_call": "cut"}
    assert not [event for event in made if event["type"] == "content_block_stop"]
    begun = [event for event in made if event["type"] == "content_block_start"]
    assert len(begun) == ("eager" in name)


def test_input_is_streamed_before_it_is_complete_only_for_eager_tools() -> None:
    sent = events(call("look", LONG))
    for tools, early in ((TOOLS, False), (EAGER, True)):
        answer = answer_to(parsed(tools=tools))
        stream = Messages().stream(answer, "tiny")
        made = read_events(stream.events(fed(answer, sent[: len(sent) // 2])))
        kinds = [event["type"] for event in made]
        assert ("content_block_delta" in kinds) is early


@pytest.mark.parametrize(
    ("betas", "given", "eager"),
    [
        ("", None, False),
        ("fine-grained-tool-streaming-2025-05-14", None, True),
        ("a-2025,fine-grained-tool-streaming-2025-05-14", None, True),
        ("fine-grained-tool-streaming-2025-05-14", False, False),
        ("", True, True),
    ],
)
def test_the_tool_decides_on_eager_streaming_before_the_beta_header(
    betas: str, given: bool | None, eager: bool
) -> None:
    client = Client({"anthropic-beta": betas}, SEAL)
    asked = parsed(tools=[{**LOOK, "eager_input_streaming": given}], client=client)
    assert asked.repeated["eager"] == ({"look"} if eager else set())


def test_the_end_of_a_call_is_sent_before_the_next_call() -> None:
    made, _ = streamed_and_whole(*_of("thinking, text and calls"))
    names = [(event["type"], event.get("index")) for event in made]
    assert names.index(("content_block_stop", 2)) < names.index(("content_block_start", 3))


@pytest.mark.parametrize("name", ["thinking", "omitted thinking"])
def test_the_signature_has_the_thinking(name: str) -> None:
    _, whole = streamed_and_whole(*_of(name))
    block = whole["content"][0]
    assert block["thinking"] == ("" if "omitted" in name else "Let me see.")
    assert verified(SEAL, block["thinking"], block["signature"], "x") == "Let me see."
    assert "Let me see" not in block["signature"]


@pytest.mark.parametrize("number", ["-4E97775", "1" + "0" * 30, "9" * 5000, "-9223372036854775809"])
def test_numbers_of_any_size_keep_their_spelling(number: str) -> None:
    text = call("look", {"where": "X"}).replace('"X"', number)
    made, whole = streamed_and_whole(parsed(tools=TOOLS), events(text))
    deltas = [event["delta"] for event in made if event["type"] == "content_block_delta"]
    given = "".join(delta["partial_json"] for delta in deltas)
    assert given.replace(" ", "") == f'{{"where":{number}}}'
    assert f'"input":{{"where":{number}}}'.encode() in dumps(whole)
    [logged] = completion_of(whole)["choices"][0]["message"]["tool_calls"]
    assert number in logged["function"]["arguments"]


def test_usage_counts_cached_tokens_apart() -> None:
    made, whole = streamed(REASONED, parsed(thinking=THINKING))
    usage = whole["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (3, 2)
    assert usage["cache_creation_input_tokens"] == 0
    assert 0 < usage["output_tokens_details"]["thinking_tokens"] < usage["output_tokens"]
    start = made[0]["message"]["usage"]
    assert start["input_tokens"] + start["cache_read_input_tokens"] == 5


def test_ids_are_in_anthropics_form() -> None:
    _, whole = streamed_and_whole(*_of("thinking, text and calls"))
    assert whole["id"].startswith("msg_")
    ids = [block["id"] for block in whole["content"] if block["type"] == "tool_use"]
    assert len({*ids}) == 2
    assert all(each.startswith("toolu_") and len(each) == 30 for each in ids)


def test_applied_edits_are_shown() -> None:
    _, whole = streamed_and_whole(*_of("edits"))
    assert whole["context_management"] == {"applied_edits": []}
    asked, sent = _of("edits")
    thinking, uses = "clear_thinking_20251015", "clear_tool_uses_20250919"
    applied = (
        AppliedEdit(ClearThinking(thinking), 2, 100),
        AppliedEdit(ClearToolUses(uses), 3, 5000),
    )
    made, whole = streamed_and_whole(replace(asked, applied_edits=applied), sent)
    assert whole["context_management"]["applied_edits"] == [
        {"type": thinking, "cleared_thinking_turns": 2, "cleared_input_tokens": 100},
        {"type": uses, "cleared_tool_uses": 3, "cleared_input_tokens": 5000},
    ]
    assert made[-2]["context_management"] == whole["context_management"]
    _, whole = streamed_and_whole(*_of("text"))
    assert "context_management" not in whole


@pytest.mark.parametrize("text", ["Hello there", "<think>hm", call("look", LONG)[:60]])
def test_an_error_in_a_stream_is_an_event(text: str) -> None:
    answer = answer_to(parsed(tools=EAGER, thinking=THINKING))
    surface = Messages()
    stream = surface.stream(answer, "tiny")
    data = stream.events(fed(answer, events(text, finish="length")[:-2]))
    body = surface.error(BackendLost("The backend is gone."), None, "req_1")
    *made, failed = read_events(data + stream.failed(body["error"]))
    grammar = BlockGrammar()
    for event in made:
        grammar.add(event)
    assert failed["type"] == "error"
    assert failed["error"]["message"] == "The backend is gone."
    check_error(failed)
    assert not [event for event in made if event["type"] == "content_block_stop"]


def test_an_error_before_the_first_event_is_an_event() -> None:
    surface = Messages()
    body = surface.error(BackendLost("Gone."), None, "req_1")
    (event,) = read_events(surface.error_event(body))
    assert event == body
    assert event["request_id"] == "req_1"


def test_silence_is_filled_with_pings() -> None:
    assert read_events(Messages.keep_alive) == [{"type": "ping"}]


def _of(name: str) -> tuple[Any, Any]:
    params, sent = ANSWERS[name]
    return parsed(**params), sent
