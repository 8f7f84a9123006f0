"""Messages of a request."""

from __future__ import annotations

from typing import Any

import pytest

from toolgate_core.errors import InvalidRequest, UnsupportedParameter
from toolgate_proxy.api.chat_completions.messages import parse_messages
from toolgate_proxy.api.chat_completions.surface import ChatCompletions


def parsed(message: dict[str, Any]) -> dict[str, Any]:
    return parse_messages([message])[0][0]


def test_content_parts_become_text_parts() -> None:
    parts = [{"type": "text", "text": "a"}, "b", {"type": "refusal", "refusal": "c"}]
    assert parsed({"role": "user", "content": parts})["content"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
        {"type": "text", "text": "c"},
    ]


def test_the_role_developer_becomes_system() -> None:
    assert parsed({"role": "developer", "content": "x"})["role"] == "system"


def test_an_assistant_message_keeps_its_calls_and_reasoning() -> None:
    message = {
        "role": "assistant",
        "content": None,
        "reasoning_content": "hm",
        "tool_calls": [
            {"id": "call_1", "function": {"name": "look", "arguments": {"at": "é"}}},
            {"id": "call_2", "type": "function", "function": {"name": "look", "arguments": ""}},
        ],
    }
    got = parsed(message)
    assert got["reasoning_content"] == "hm"
    assert got["content"] is None
    arguments = [call["function"]["arguments"] for call in got["tool_calls"]]
    assert arguments == ['{"at": "é"}', "{}"]
    assert {call["type"] for call in got["tool_calls"]} == {"function"}


def test_tool_results_are_sorted_by_their_calls() -> None:
    calls = [{"id": f"c{at}", "function": {"name": "look"}} for at in range(3)]
    results = [{"role": "tool", "tool_call_id": f"c{at}", "content": f"{at}"} for at in (2, 0, 1)]
    more = [{"role": "tool", "tool_call_id": "c0", "content": "again"}]
    asked = [{"role": "assistant", "tool_calls": calls}, *results]
    between = {"role": "user", "content": "and?"}
    got, _ = parse_messages(
        [*asked, between, {"role": "assistant", "tool_calls": calls[:1]}, *more]
    )
    assert [m["content"] for m in got] == [None, "0", "1", "2", "and?", None, "again"]


def test_results_of_unknown_calls_are_last() -> None:
    calls = [{"id": "c0", "function": {"name": "look"}}]
    results = [{"role": "tool", "tool_call_id": name, "content": name} for name in ("x", "c0")]
    got, paths = parse_messages([{"role": "assistant", "tool_calls": calls}, *results])
    assert [m["content"] for m in got[1:]] == ["c0", "x"]
    assert paths == ("messages[0]", "messages[2]", "messages[1]")


def test_errors_name_the_messages_of_the_request() -> None:
    """Later steps see sorted results."""
    calls = [{"id": name, "function": {"name": "look"}} for name in ("a", "b")]
    results = [{"role": "tool", "tool_call_id": name, "content": name} for name in ("b", "a")]
    body = {"messages": [{"role": "assistant", "tool_calls": calls}, *results]}
    surface = ChatCompletions()
    error = InvalidRequest("The image at 'messages[1].content[0]' is wrong.",
                           param="messages[1].content[0]")  # fmt: skip
    shown = surface.error(error, surface.parse(body, model="tiny"))["error"]
    assert shown["param"] == "messages[2].content[0]"
    assert shown["message"] == "The image at 'messages[2].content[0]' is wrong."
    sorted_before = surface.parse({"messages": body["messages"][:2]}, model="tiny")
    for asked in (None, sorted_before):
        assert surface.error(error, asked)["error"]["param"] == error.param


def test_a_refusal_becomes_the_content() -> None:
    got = parsed({"role": "assistant", "content": None, "refusal": "I can't."})
    assert got["content"] == "I can't."


def test_unknown_fields_are_passed_to_the_template() -> None:
    assert parsed({"role": "tool", "content": "x", "tool_call_id": "1", "weight": 2})["weight"] == 2


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("text", "messages[0]"),
        ({"content": "x"}, "messages[0].role"),
        ({"role": "", "content": "x"}, "messages[0].role"),
        ({"role": "user"}, "messages[0].content"),
        ({"role": "user", "content": 3}, "messages[0].content"),
        ({"role": "user", "content": [3]}, "messages[0].content[0]"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content[0].text"),
        ({"role": "user", "content": "x", "tool_calls": [{}]}, "messages[0].tool_calls"),
        ({"role": "assistant", "tool_calls": {}}, "messages[0].tool_calls"),
        ({"role": "assistant", "tool_calls": [3]}, "messages[0].tool_calls[0]"),
        ({"role": "assistant", "tool_calls": [{}]}, "messages[0].tool_calls[0].function"),
        (
            {"role": "assistant", "tool_calls": [{"function": {}}]},
            "messages[0].tool_calls[0].function.name",
        ),
        (
            {"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": 3}}]},
            "messages[0].tool_calls[0].function.arguments",
        ),
        (
            {"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": "{"}}]},
            "messages[0].tool_calls[0].function.arguments",
        ),
        ({"role": "assistant", "content": "x", "refusal": 3}, "messages[0].refusal"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {}}]},
            "messages[0].content[0].image_url",
        ),
        ({"role": "assistant", "content": "x", "reasoning": 3}, "messages[0].reasoning"),
    ],
)
def test_messages_that_no_template_can_render_are_rejected(message: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        parse_messages([message])
    assert refusal.value.param == param


@pytest.mark.parametrize(
    ("message", "param"),
    [
        (
            {"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]},
            "messages[0].content[0].type",
        ),
        (
            {"role": "system", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]},
            "messages[0].content[0].type",
        ),
        ({"role": "assistant", "audio": {"id": "1"}}, "messages[0].audio"),
        (
            {"role": "assistant", "tool_calls": [{"type": "mcp"}]},
            "messages[0].tool_calls[0].type",
        ),
    ],
)
def test_unsupported_content_is_rejected_with_its_path(message: dict[str, Any], param: str) -> None:
    with pytest.raises(UnsupportedParameter) as refusal:
        parse_messages([message])
    assert refusal.value.param == param


@pytest.mark.parametrize("messages", [None, [], {}, "hello"])
def test_messages_are_required(messages: Any) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        parse_messages(messages)
    assert refusal.value.param == "messages"


def test_images_of_users_and_in_results_of_calls() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aa"}}
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": "a", "content": [image]}
    given = [
        {"role": "user", "content": [image]},
        {"role": "assistant", "tool_calls": [call]},
        result,
    ]
    parsed, _ = parse_messages(given)
    assert [parsed[at]["content"] for at in (0, 2)] == [[image], [image]]
