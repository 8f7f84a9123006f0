"""Messages with content blocks become messages in the form of chat templates."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.apis.messages_api import SEAL, parsed
from toolgate_core.errors import InvalidRequest
from toolgate_proxy.api.messages.conversation.call_ids import original_id, shown_id
from toolgate_proxy.api.messages.conversation.signature import sign
from toolgate_proxy.sealing import OwnerSeal

PNG = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
IMAGE = {"type": "image", "source": PNG}
AS_URI = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


def text(of: str) -> dict[str, Any]:
    return {"type": "text", "text": of}


def use(call_id: str = "toolu_1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "look", "input": {"a": "é"}, **more}


def result(call_id: str = "toolu_1", content: Any = "found", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": blocks[0] if isinstance(blocks[0], str) else [*blocks]}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": blocks[0] if isinstance(blocks[0], str) else [*blocks]}


def called(call_id: str, arguments: str = '{"a": "é"}') -> dict[str, Any]:
    function = {"name": "look", "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def thinking(of: str, seal: OwnerSeal = SEAL) -> dict[str, Any]:
    return {"type": "thinking", "thinking": of, "signature": sign(seal, of)}


def messages_of(*given: Any, **params: Any) -> list[dict[str, Any]]:
    return [*parsed([*given], **params).messages]


def test_text_is_one_string_or_parts() -> None:
    assert messages_of(user("a")) == messages_of(user(text("a")))
    assert messages_of(user(text("a"), text("b"))) == [
        {"role": "user", "content": [text("a"), text("b")]}
    ]


def test_consecutive_messages_of_a_role_are_one() -> None:
    assert messages_of(user("a"), user("b")) == [
        {"role": "user", "content": [text("a"), text("b")]}
    ]
    last = messages_of(user("a"), assistant("b"), assistant("c"), user("d"))
    assert [each["role"] for each in last] == ["user", "assistant", "user"]


def test_system_messages_stay_at_their_places() -> None:
    """The backend knows which of them the model's template accepts."""
    assert messages_of(
        {"role": "system", "content": "b"},
        user("c"),
        {"role": "developer", "content": [text("d")]},
        system=[text("x-anthropic-billing-header: cch=1;"), text("a1"), text("a2")],
    ) == [
        {"role": "system", "content": "a1\n\na2"},
        {"role": "system", "content": "b"},
        user("c"),
        {"role": "system", "content": "d"},
    ]
    later = {"role": "system", "content": "later"}
    called_ = messages_of(user("a"), assistant(use()), later, user(result(), text("c")))
    assert [each["role"] for each in called_] == ["user", "assistant", "tool", "system", "user"]


def test_an_assistant_turn_is_one_message() -> None:
    messages = messages_of(
        user("a"),
        assistant(thinking("hm"), text("I look."), use("toolu_1"), use("toolu_2")),
        user(text("and?"), result("toolu_2", "second"), result("toolu_1", [text("first")])),
    )
    assert messages[1:] == [
        {
            "role": "assistant",
            "content": "I look.",
            "reasoning_content": "hm",
            "tool_calls": [called("toolu_1"), called("toolu_2")],
        },
        {"role": "tool", "tool_call_id": "toolu_1", "content": "first"},
        {"role": "tool", "tool_call_id": "toolu_2", "content": "second"},
        {"role": "user", "content": "and?"},
    ]


def test_a_result_has_text_images_and_errors() -> None:
    def content_of(given: Any, **more: Any) -> Any:
        return messages_of(user("a"), assistant(use()), user(result(content=given, **more)))[-1][
            "content"
        ]

    assert content_of([text("a"), IMAGE]) == [text("a"), AS_URI]
    assert content_of("a", is_error=True) == "Error: a"
    assert content_of([IMAGE], is_error=True) == [text("Error"), AS_URI]
    assert content_of("", is_error=True) == "Error"
    assert content_of([]) == content_of("") == ""
    bare = {"type": "tool_result", "tool_use_id": "toolu_1"}
    assert messages_of(user("a"), assistant(use()), user(bare))[-1]["content"] == ""


def test_images_documents_and_search_results() -> None:
    url = {"type": "image", "source": {"type": "url", "url": "https://a.example/x.png"}}
    document = {
        "type": "document",
        "title": "t",
        "context": "c",
        "source": {"type": "text", "media_type": "text/plain", "data": "d"},
    }
    inner = {"type": "document", "source": {"type": "content", "content": [text("e"), IMAGE]}}
    found = {"type": "search_result", "title": "t", "source": "s", "content": [text("f")]}
    asked = parsed([user(IMAGE, url, document, inner, found)])
    assert asked.images
    assert asked.messages[0]["content"] == [
        AS_URI,
        {"type": "image_url", "image_url": {"url": "https://a.example/x.png"}},
        text('<document title="t">\nc\n\nd\n</document>'),
        text("<document>\n"),
        text("e"),
        AS_URI,
        text("\n</document>"),
        text("t\ns\nf"),
    ]


def test_a_last_message_of_the_assistant_is_continued() -> None:
    asked = parsed([user("a"), assistant("The best is (")])
    assert asked.template_kwargs == {
        "continue_final_message": True,
        "add_generation_prompt": False,
    }
    assert parsed([user("a")]).template_kwargs is None
    chosen = parsed([user("a"), assistant("b")], add_generation_prompt=True)
    assert chosen.template_kwargs == {"add_generation_prompt": True}


def test_thinking_is_restored_by_its_signature() -> None:
    omitted = {**thinking("hm"), "thinking": ""}
    turn = messages_of(user("a"), assistant(omitted, text("b")), user("c"))[1]
    assert turn["reasoning_content"] == "hm"


REFUSED: list[tuple[Any, str]] = [
    ([], "messages"),
    ("hi", "messages"),
    ([{"role": "system", "content": "a"}], "messages"),
    ([3], "messages[0]"),
    ([{"role": "tool", "content": "a"}], "messages[0].role"),
    ([{"content": "a"}], "messages[0].role"),
    ([{"role": "user"}], "messages[0].content"),
    ([{"role": "user", "content": 3}], "messages[0].content"),
    ([user("")], "messages[0].content"),
    ([{"role": "user", "content": []}], "messages[0].content"),
    ([{"role": "user", "content": "a", "name": "b"}], "messages[0].name"),
    ([user(3)], "messages[0].content[0]"),
    ([user({"text": "a"})], "messages[0].content[0].type"),
    ([user({"type": "audio"})], "messages[0].content[0].type"),
    ([user({"type": "text"})], "messages[0].content[0].text"),
    ([user({**text("a"), "color": 1})], "messages[0].content[0].color"),
    ([user({**text("a"), "cache_control": 1})], "messages[0].content[0].cache_control"),
    ([user(use())], "messages[0].content[0].type"),
    ([user({"type": "image"})], "messages[0].content[0].source"),
    ([user({"type": "image", "source": {"type": "file", "file_id": "f"}})],
     "messages[0].content[0].source.type"),
    ([user({"type": "image", "source": {**PNG, "media_type": "image/bmp"}})],
     "messages[0].content[0].source.media_type"),
    ([user({"type": "image", "source": {"type": "url", "url": "data:image/png;base64,"}})],
     "messages[0].content[0].source.url"),
    ([user({"type": "document", "source": {"type": "text", "data": "a"},
            "citations": {"enabled": True}})],
     "messages[0].content[0].citations"),
    ([user("a"), assistant(use(), use()), user(result())], "messages[1].content[1].id"),
    ([user("a"), assistant(use())], "messages"),
    ([user("a"), assistant(use()), user("b")], "messages[2].content"),
    ([user("a"), assistant(use()), assistant("b")], "messages[2].content"),
    ([user("a"), assistant(use("toolu_1"), use("toolu_2")), user(result())],
     "messages[2].content"),
    ([user(result())], "messages[0].content[0].tool_use_id"),
    ([user("a"), assistant(use()), user(result(), result())],
     "messages[2].content[1].tool_use_id"),
    ([user("a"), assistant(use()), user(result(), text("b")), assistant("c"), user(result())],
     "messages[4].content[0].tool_use_id"),
    ([user("a"), assistant(use()), user(result(content=[{"type": "tool_reference"}]))],
     "messages[2].content[0].content[0].tool_name"),
    ([user("a"), assistant(use()), user(result(is_error="no"))],
     "messages[2].content[0].is_error"),
    ([user("a"), {"role": "system", "content": [{"type": "tool_addition"}]}],
     "messages[1].content[0].tool"),
    ([user({"type": "tool_addition"})], "messages[0].content[0].type"),
    ([user({"type": "tool_reference", "tool_name": "look"})], "messages[0].content[0].type"),
    ([user("a"), {"role": "user", "content": "b", "output_config": {}}],
     "messages[1].output_config"),
    ([user("a"), {"role": "system", "content": [], "output_config": {}, "color": 1}],
     "messages[1].color"),
    ([user("a"), assistant({"type": "redacted_thinking"}), user("b")],
     "messages[1].content[0].data"),
    ([user("a"), assistant({**thinking("hm"), "thinking": "no"}), user("b")],
     "messages[1].content[0].thinking"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "param"), REFUSED)
def test_invalid_messages_are_refused_at_their_path(given: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        parsed(given)
    assert error.value.param == param


@pytest.mark.parametrize(
    "call_id", ["call_" + "aB3" * 8, "functions.look:0", "0", "aB3dE6gH9", "é/?=", "call_x"]
)
def test_ids_of_calls_return_unchanged(call_id: str) -> None:
    shown = shown_id(call_id, "msg_1", 0)
    assert shown.startswith("toolu_")
    assert all(each.isascii() and (each.isalnum() or each in "_-") for each in shown)
    assert original_id(shown) == call_id
    assert shown == shown_id(call_id, "msg_1", 0)


def test_ids_that_a_family_counts_are_unique_in_a_conversation() -> None:
    shown = {shown_id("0", response, at) for response in ("msg_1", "msg_2") for at in (0, 1)}
    assert len(shown) == 4


@pytest.mark.parametrize("call_id", ["toolu_01", "toolu_0123456789ab_%%", "abc", "toolu_01_é"])
def test_foreign_ids_stay(call_id: str) -> None:
    assert original_id(call_id) == call_id
