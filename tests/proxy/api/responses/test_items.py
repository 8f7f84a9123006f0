"""`input` and `instructions` as messages of chat templates."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.apis.responses_api import parsed
from toolgate_core.errors import InvalidRequest

CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"a": 1}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "fine"}
REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "hm"}],
}
SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "I look.", "annotations": [], "logprobs": []}],
}
RENDERED_CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "look", "arguments": '{"a": 1}'},
}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "fine"}


def messages(given: Any, **params: Any) -> list[dict[str, Any]]:
    return [*parsed(given, **params).messages]


def refusal(given: Any, **params: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as refused:
        parsed(given, **params)
    return refused.value


def test_text_is_a_user_message() -> None:
    assert messages("hi") == [{"role": "user", "content": "hi"}]
    assert messages("hi", instructions="Be brief.") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    ]


def test_messages_may_leave_out_their_type() -> None:
    assert messages([{"role": "user", "content": "hi"}]) == messages("hi")


def test_an_assistant_turn_is_one_message() -> None:
    """Its items are those of a response, sent back as they were."""
    text = [{"type": "text", "text": "I look."}]
    assert messages([REASONING, SAID, CALL, OUTPUT]) == [
        {
            "role": "assistant",
            "reasoning_content": "hm",
            "content": text,
            "tool_calls": [RENDERED_CALL],
        },
        RESULT,
    ]
    assert messages([SAID, REASONING, CALL, OUTPUT])[1:] == [
        {
            "role": "assistant",
            "reasoning_content": "hm",
            "content": None,
            "tool_calls": [RENDERED_CALL],
        },
        RESULT,
    ]
    assert len(messages([CALL, SAID, OUTPUT])) == 2
    assert len(messages([SAID, SAID])) == 2


def test_results_are_sorted_by_their_calls() -> None:
    second = CALL | {"call_id": "c2"}
    made = messages([CALL, second, OUTPUT | {"call_id": "c2", "output": "late"}, OUTPUT])
    assert [each.get("content") for each in made] == [None, "fine", "late"]


def test_a_summary_stands_for_reasoning_without_content() -> None:
    summary = [{"type": "summary_text", "text": "hm"}]
    (made,) = messages([{"type": "reasoning", "id": "rs_1", "summary": summary}])
    assert made["reasoning_content"] == "hm"
    assert messages([{"type": "reasoning", "id": "rs_1", "summary": []}, SAID])[0]["content"]


def test_instructions_and_the_system_messages_after_them_are_one_message() -> None:
    """Many templates accept one system message only."""
    system = {"role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]}
    user = {"role": "user", "content": "hi"}
    assert messages([system, user, system], instructions="Be brief.") == [
        {"role": "system", "content": "Be brief.\n\nBe kind."},
        user,
        {"role": "system", "content": [{"type": "text", "text": "Be kind."}]},
    ]
    assert [each["role"] for each in messages([system, system, user])] == ["system"] * 2 + ["user"]


def test_parts_and_images() -> None:
    content = [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": "data:image/png;base64,aa", "detail": "auto"},
    ]
    asked = parsed([SAID, {"role": "user", "content": content}])
    assert asked.images
    assert asked.messages[1]["content"] == [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aa"}},
    ]
    assert asked.message_paths == ("input[0]", "input[1]")
    assert messages([SAID | {"content": [{"type": "refusal", "refusal": "No."}]}])[0][
        "content"
    ] == [{"type": "text", "text": "No."}]
    parts = [{"type": "input_text", "text": "fine"}, content[1]]
    got = parsed([CALL, OUTPUT | {"output": parts}])
    assert got.images
    assert got.messages[1]["content"] == [
        {"type": "text", "text": "fine"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aa"}},
    ]


@pytest.mark.parametrize(
    ("given", "param"),
    [
        (5, "input"),
        ("", "input"),
        ([], "input"),
        (None, "input"),
        ({"role": "user"}, "input"),
        ([3], "input[0]"),
        ([{}], "input[0].type"),
        ([{"type": 3}], "input[0].type"),
        ([{"type": "item_reference", "id": "msg_1"}], "input[0].type"),
        ([{"type": "custom_tool_call", "call_id": "c"}], "input[0].input"),
        ([{"type": "web_search_call", "id": "ws"}], "input[0].type"),
        ([{"role": "robot", "content": "hi"}], "input[0].role"),
        ([{"role": "user"}], "input[0].content"),
        ([{"role": "user", "content": "hi", "extra": 1}], "input[0].extra"),
        ([{"role": "user", "content": [3]}], "input[0].content[0]"),
        ([{"role": "user", "content": [{}]}], "input[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "input_file"}]}], "input[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "input_text"}]}], "input[0].content[0].text"),
        (
            [{"role": "user", "content": [{"type": "input_text", "text": "a", "b": 1}]}],
            "input[0].content[0].b",
        ),
        (
            [{"role": "user", "content": [{"type": "input_image"}]}],
            "input[0].content[0].image_url",
        ),
        (
            [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}],
            "input[0].content[0].file_id",
        ),
        (
            [{"role": "assistant", "content": [{"type": "input_image", "image_url": "x"}]}],
            "input[0].content[0].type",
        ),
        ([SAID | {"status": "done"}], "input[0].status"),
        ([CALL | {"name": ""}], "input[0].name"),
        ([CALL | {"call_id": None}], "input[0].call_id"),
        ([CALL | {"arguments": '{"a": '}], "input[0].arguments"),
        ([CALL | {"arguments": "[1]"}], "input[0].arguments"),
        ([CALL | {"namespace": 3}], "input[0].namespace"),
        ([OUTPUT], "input[0].call_id"),
        ([CALL, OUTPUT | {"output": None}], "input[1].output"),
        ([CALL, OUTPUT | {"output": [{"type": "input_file"}]}], "input[1].output[0].type"),
        ([CALL, OUTPUT | {"output": [{"type": "input_image"}]}], "input[1].output[0].image_url"),
        ([REASONING | {"encrypted_content": "x"}], "input[0].encrypted_content"),
        ([REASONING | {"content": [{"type": "text"}]}], "input[0].content[0].type"),
    ],
)
def test_error_names_the_path_in_the_words_of_the_request(given: Any, param: str) -> None:
    error = refusal(given)
    assert error.param == param
    assert repr(param) in error.message or param.endswith(".type")
    assert "messages" not in error.message
