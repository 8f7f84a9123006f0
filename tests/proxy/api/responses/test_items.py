"""`input` and `instructions` as messages of chat templates."""

from __future__ import annotations

import re
from typing import Any

import pytest
from openai.types.responses import ResponseInputItemParam

from tests.support.apis.responses_api import parsed
from tests.support.apis.value_examples import tool_types
from toolgate_core.errors import InvalidRequest, UnsupportedParameter
from toolgate_proxy.api.responses.items import FIELDS

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


def test_system_messages_stay_at_their_places() -> None:
    """The backend knows which of them the model's template accepts."""
    system = {"role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]}
    user = {"role": "user", "content": "hi"}
    assert messages([system, user, system], instructions="Be brief.") == [
        {"role": "system", "content": "Be brief."},
        {"role": "system", "content": [{"type": "text", "text": "Be kind."}]},
        user,
        {"role": "system", "content": [{"type": "text", "text": "Be kind."}]},
    ]


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


def changes(given: Any) -> list[tuple[str, str]]:
    return [(change.kind, change.path) for change in parsed(given).history_changes]


def texts(message: dict[str, Any]) -> list[str]:
    return [part["text"] for part in message["content"]]


@pytest.mark.parametrize("arguments", ['{"a": ', "null", "[1]", "1", None, [], 3])
def test_a_cut_call_has_no_arguments(arguments: Any) -> None:
    cut = CALL | {"arguments": arguments, "status": "incomplete"}
    made = messages([cut, OUTPUT])
    assert made[0]["tool_calls"][0]["function"] == {"name": "look", "arguments": "{}"}
    assert changes([cut, OUTPUT]) == (
        [] if arguments is None else [("arguments", "input[0].arguments")]
    )
    (made_,) = messages([{"type": "custom_tool_call", "call_id": "c", "name": "sql"}])
    assert made_["tool_calls"][0]["function"]["arguments"] == '{"input": ""}'


def test_a_call_without_a_result_is_followed_by_one_that_says_so() -> None:
    given = [CALL | {"status": "incomplete"}, {"role": "user", "content": "Go on."}]
    assert [each["role"] for each in messages(given)] == ["assistant", "tool", "user"]
    assert changes(given) == [("no_result", "input[0]")]


@pytest.mark.parametrize("content", [None, []])
def test_an_assistant_message_may_be_empty(content: Any) -> None:
    user = {"role": "user", "content": "hi"}
    made = messages([user, SAID | {"content": content}, user])
    assert [each["role"] for each in made] == ["user", "assistant", "user"]
    assert not made[1]["content"]
    assert changes([user, SAID | {"content": content}, user]) == []


def test_a_result_may_be_empty() -> None:
    assert messages([CALL, OUTPUT | {"output": None}])[1]["content"] == ""


def test_reasoning_of_another_service_is_left_out() -> None:
    foreign = {"type": "reasoning", "summary": [], "encrypted_content": "gAAAAABo"}
    assert messages([foreign, SAID]) == messages([SAID])
    assert changes([foreign, SAID]) == [("left_out", "input[0].encrypted_content")]
    summary = [{"type": "summary_text", "text": "hm"}]
    assert messages([foreign | {"summary": summary}, SAID])[0]["reasoning_content"] == "hm"
    parts = [{"type": "encrypted_content", "encrypted_content": "x"}, {"type": "text"}]
    assert messages([REASONING | {"content": parts}, SAID]) == messages([SAID])


def test_items_of_hosted_tools_without_text_are_left_out() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed",
              "action": {"type": "search", "query": "valves"}}  # fmt: skip
    image = {"type": "image_generation_call", "id": "ig", "status": None, "result": "iVBORw0KGgo="}
    assert messages([REASONING, search, image, SAID]) == messages([REASONING, SAID])
    assert changes([REASONING, search, image, SAID]) == [
        ("left_out", "input[1]"),
        ("left_out", "input[2]"),
    ]


def test_items_of_hosted_tools_with_text_are_results() -> None:
    lost = {"type": "local_shell_call_output", "id": "s", "output": "a.txt"}
    remote = {"type": "mcp_call", "id": "m", "name": "find", "arguments": "{}", "output": "none"}
    given = [{"role": "user", "content": "hi"}, lost, remote, SAID]
    _, first, a, second, b, said = messages(given)
    assert [each["tool_calls"][0]["function"]["name"] for each in (first, second)] == [
        "local_shell",
        "find",
    ]
    assert [(each["role"], each["content"]) for each in (a, b)] == [
        ("tool", "a.txt"),
        ("tool", "none"),
    ]
    assert texts(said) == ["I look."]
    assert changes(given) == [("as_text", "input[1]")]


def test_parts_of_other_services_become_text_or_are_left_out() -> None:
    parts = [{"type": "reasoning_text", "text": "hm"}, {"type": "text", "text": "So."},
             {"type": "input_image", "image_url": "x"}]  # fmt: skip
    given = [SAID | {"content": parts}]
    assert texts(messages(given)[0]) == ["So."]
    assert {*changes(given)} == {
        ("left_out", "input[0].content[0]"),
        ("as_text", "input[0].content[1]"),
        ("left_out", "input[0].content[2]"),
    }
    output = [{"type": "input_file", "file_id": "f"}, {"type": "input_image", "file_id": "f"}]
    made = messages([CALL, OUTPUT | {"output": output}])[1]
    assert texts(made) == ["[input_file left out]", "[input_image left out]"]


def test_fields_that_clients_add_are_left_out() -> None:
    more = {"internal_chat_message_metadata_passthrough": {"turn_id": "1"}, "annotations": None}
    part = {"type": "input_text", "text": "hi", "weight": 1}
    user = {"role": "user", "content": [part]} | more
    given = [user, CALL | more, OUTPUT | more]
    assert messages(given) == messages([{"role": "user", "content": [part]}, CALL, OUTPUT])
    name = "internal_chat_message_metadata_passthrough"
    assert changes(given) == [
        ("left_out", f"input[0].{name}"),
        ("left_out", "input[0].content[0].weight"),
        ("left_out", f"input[1].{name}"),
        ("left_out", f"input[2].{name}"),
    ]


UNKNOWN = ("context_compaction", "compaction_summary", "ghost_snapshot", "Ünknown.kind/2")


@pytest.mark.parametrize(
    "kind", sorted({*UNKNOWN, *tool_types(ResponseInputItemParam)} - {*FIELDS})
)
def test_an_unknown_item_is_left_out_or_shown_as_text(kind: str) -> None:
    user = {"role": "user", "content": "hi"}
    if kind == "item_reference":
        with pytest.raises(UnsupportedParameter, match="Send the item itself"):
            messages([{"type": kind, "id": "msg_1", "x": 1}, user])
        return
    assert messages([{"type": kind, "encrypted_content": "gAAA"}, user]) == [user]
    assert changes([{"type": kind, "encrypted_content": "gAAA"}, user]) == [
        ("left_out", "input[0]")
    ]
    called, result, _ = messages([{"type": kind, "output": "seen"}, user])
    assert (result["content"], changes([{"type": kind, "output": "seen"}])) == (
        "seen",
        [("as_text", "input[0]")],
    )
    assert re.fullmatch("[A-Za-z0-9_-]+", called["tool_calls"][0]["function"]["name"])


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
        ([{"type": "web_serach"}], "input"),
        ([{"type": "tool_search_output", "call_id": "c", "tools": {}}], "input[0].tools"),
        ([{"type": "additional_tools", "tools": [3]}], "input[0].tools[0]"),
        ([{"type": "additional_tools", "tools": []}], "input"),
        ([{"role": "robot", "content": "hi"}], "input[0].role"),
        ([{"role": "user"}], "input[0].content"),
        ([{"role": "user", "content": [3]}], "input[0].content[0]"),
        ([{"role": "user", "content": [{}]}], "input[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "input_audio"}]}], "input[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "input_text"}]}], "input[0].content[0].text"),
        (
            [{"role": "user", "content": [{"type": "input_image"}]}],
            "input[0].content[0].image_url",
        ),
        (
            [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}],
            "input[0].content[0].file_id",
        ),
        ([SAID | {"status": "done"}], "input[0].status"),
        ([CALL | {"name": ""}], "input[0].name"),
        ([CALL | {"call_id": None}], "input[0].call_id"),
        ([CALL | {"namespace": 3}], "input[0].namespace"),
        ([REASONING | {"content": 3}], "input[0].content"),
        ([OUTPUT], "input[0].call_id"),
        ([CALL, OUTPUT | {"output": [{"type": "input_image"}]}], "input[1].output[0].image_url"),
    ],
)
def test_error_names_the_path_in_the_words_of_the_request(given: Any, param: str) -> None:
    error = refusal(given)
    assert error.param == param
    assert repr(param) in error.message or param.endswith(".type")
    assert "messages" not in error.message
