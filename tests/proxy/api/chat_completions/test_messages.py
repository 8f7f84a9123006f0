"""Messages of a request."""

from __future__ import annotations

from typing import Any

import pytest

from toolgate_core.chat_request import HistoryChange
from toolgate_core.errors import InvalidRequest, UnsupportedParameter
from toolgate_core.toolset import Toolset
from toolgate_proxy.api.chat_completions.messages import parse_messages
from toolgate_proxy.api.chat_completions.surface import ChatCompletions
from toolgate_proxy.api.shared.history import History


def read(messages: Any, history: History) -> tuple[tuple[dict[str, Any], ...], tuple[str, ...]]:
    return parse_messages(messages, history, Toolset(), lambda _tool, _path: ())


def messages_of(messages: Any) -> tuple[dict[str, Any], ...]:
    return read(messages, History())[0]


def parsed(message: dict[str, Any]) -> dict[str, Any]:
    return messages_of([message])[0]


def changed(message: dict[str, Any]) -> tuple[dict[str, Any], tuple[HistoryChange, ...]]:
    """The message, and what the model sees in another form."""
    history = History()
    return read([message], history)[0][0], history.changes


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
    asked = [{"role": "assistant", "tool_calls": calls}, *results]
    got, paths = read(asked, History())
    assert [message["content"] for message in got] == [None, "0", "1", "2"]
    assert paths == ("messages[0]", "messages[2]", "messages[3]", "messages[1]")


NOTHING = ("", None, {})


@pytest.mark.parametrize(
    "arguments", [*NOTHING, '{"room": "4', "null", "[]", "3", [], 3, '"{}"', "{]"]
)
def test_arguments_that_are_no_object_become_an_empty_one(arguments: Any) -> None:
    call = {"id": "a", "function": {"name": "look", "arguments": arguments}}
    got, changes = changed({"role": "assistant", "tool_calls": [call]})
    assert got["tool_calls"][0]["function"]["arguments"] == "{}"
    change = HistoryChange("arguments", "messages[0].tool_calls[0].function.arguments")
    assert changes == (() if arguments in NOTHING else (change,))


@pytest.mark.parametrize("custom", [{"name": "sql"}, {"name": "sql", "input": None}])
def test_a_custom_call_without_its_input_has_an_empty_one(custom: dict[str, Any]) -> None:
    call = {"id": "a", "type": "custom", "custom": custom}
    got, changes = changed({"role": "assistant", "tool_calls": [call]})
    assert got["tool_calls"][0]["function"] == {"name": "sql", "arguments": '{"input": ""}'}
    assert [change.path for change in changes] == ["messages[0].tool_calls[0].custom.input"]


@pytest.mark.parametrize("content", [None, []])
def test_a_result_may_be_empty(content: Any) -> None:
    call = {"id": "a", "function": {"name": "look"}}
    result = {"role": "tool", "tool_call_id": "a", "content": content}
    _, got = messages_of([{"role": "assistant", "tool_calls": [call]}, result])
    assert not got["content"]


@pytest.mark.parametrize("message", [{"content": []}, {"content": None}, {"content": ""}, {}])
def test_an_empty_turn_of_the_assistant_stays(message: dict[str, Any]) -> None:
    got, changes = changed({"role": "assistant", **message})
    assert not got["content"]
    assert changes == ()


def test_parts_of_other_services_become_text_or_are_left_out() -> None:
    parts = [
        {"type": "thinking", "thinking": "hm", "text": "hm", "signature": "x"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "output_text", "text": "So."},
        {"type": "output_audio", "audio": "UklGRg=="},
    ]
    got, changes = changed({"role": "assistant", "content": parts, "audio": {"id": "audio_1"}})
    assert got == {"role": "assistant", "content": [{"type": "text", "text": "So."}]}
    assert changes == (
        HistoryChange("left_out", "messages[0].audio"),
        HistoryChange("left_out", "messages[0].content[0]"),
        HistoryChange("left_out", "messages[0].content[1]"),
        HistoryChange("left_out", "messages[0].content[3]"),
        HistoryChange("as_text", "messages[0].content[2]"),
    )


def test_a_part_of_a_result_that_can_not_be_shown_is_named_to_the_model() -> None:
    call = {"id": "a", "function": {"name": "look"}}
    content = [{"type": "text", "text": "a"}, {"type": "file", "file": {"file_data": "x"}}]
    result = {"role": "tool", "tool_call_id": "a", "content": content}
    _, got = messages_of([{"role": "assistant", "tool_calls": [call]}, result])
    assert [part["text"] for part in got["content"]] == ["a", "[file left out]"]


def test_calls_of_other_services_are_functions_or_are_left_out() -> None:
    builtin = {"id": "a", "type": "builtin_function", "function": {"name": "$search"}}
    calls = [{"id": "b", "type": "mcp", "server": "x"}, builtin]
    got, changes = changed({"role": "assistant", "content": None, "tool_calls": calls})
    function = {"name": "$search", "arguments": "{}"}
    assert got["tool_calls"] == [{"id": "a", "type": "function", "function": function}]
    assert changes == (HistoryChange("left_out", "messages[0].tool_calls[0]"),)


def test_the_deprecated_form_becomes_calls_and_results() -> None:
    called = {"role": "assistant", "function_call": {"name": "look", "arguments": '{"a": 1'}}
    history = History()
    got, _ = read([called, {"role": "function", "name": "look", "content": "x"}], history)
    (call,) = got[0]["tool_calls"]
    assert call["function"] == {"name": "look", "arguments": "{}"}
    assert got[1] == {
        "role": "tool", "name": "look", "content": "x", "tool_call_id": call["id"],
    }  # fmt: skip
    assert [change.kind for change in history.changes] == ["arguments"]


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
    assert surface.error(error)["error"]["param"] == error.param


def test_a_refusal_becomes_the_content() -> None:
    got = parsed({"role": "assistant", "content": None, "refusal": "I can't."})
    assert got["content"] == "I can't."


def test_unknown_fields_are_passed_to_the_template() -> None:
    assert parsed({"role": "user", "content": "x", "weight": 2})["weight"] == 2


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
        ({"role": "tool", "content": {"ok": True}}, "messages[0].content"),
        ({"role": "assistant", "content": [{"type": 3}]}, "messages[0].content[0].type"),
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
        messages_of([message])
    assert refusal.value.param == param


@pytest.mark.parametrize(
    ("role", "part"),
    [
        ("user", {"type": "input_audio", "input_audio": {}}),
        ("system", {"type": "image_url", "image_url": {"url": "data:"}}),
        ("user", {"type": "thinking", "thinking": "hm"}),
    ],
)
def test_unsupported_content_is_rejected_with_its_path(role: str, part: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedParameter) as refusal:
        messages_of([{"role": role, "content": [part]}])
    assert refusal.value.param == "messages[0].content[0].type"


@pytest.mark.parametrize("messages", [None, [], {}, "hello"])
def test_messages_are_required(messages: Any) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        messages_of(messages)
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
    parsed = messages_of(given)
    assert [parsed[at]["content"] for at in (0, 2)] == [[image], [image]]
