from __future__ import annotations

import json
from typing import Any

import pytest

from toolgate_core.errors import InvalidRequest, UnsupportedParameter
from toolgate_proxy import request_shape
from toolgate_proxy.api.chat_completions.parameters import unknown
from toolgate_proxy.body_guard import parse
from toolgate_proxy.request_shape import check_messages, check_shape


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ([1], None),
        ("text", None),
        ({"model": 3}, "model"),
        ({"stream": "yes"}, "stream"),
        ({"messages": "hello"}, "messages"),
        ({"messages": ["hello"]}, "messages[0]"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0]"),
        (
            {"messages": [{"role": "user", "content": [{"type": "x"}]}]},
            "messages[0].content[0].type",
        ),
        ({"messages": [{"role": "assistant", "tool_calls": [1]}]}, "messages[0].tool_calls[0]"),
        ({"tools": "x"}, "tools"),
        ({"tools": [None]}, "tools[0]"),
        ({"response_format": "json"}, "response_format"),
        ({"extra_headers": ["a"]}, "extra_headers"),
        ({"stream": True, "stream_options": 3}, "stream_options"),
        (
            {"stream": True, "stream_options": {"include_usage": "yes"}},
            "stream_options.include_usage",
        ),
    ],
)
def test_wrong_types_are_named(body: Any, param: str | None) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        check_shape(parse(json.dumps(body).encode()))
    assert refusal.value.param == param


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"messages": null, "tools": null}',
        b'{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}',
    ],
)
def test_the_rest_is_left_to_the_host(body: bytes) -> None:
    check_shape(parse(body))


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 10_000, b"\xff", b'{"a": 1} x'])
def test_what_is_no_json(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse(body)


def test_an_order_that_litellm_would_leave_out_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_shape, "is_foreign", lambda model: model == "claude")
    single = {"type": "auto", "disable_parallel_tool_use": True}
    with pytest.raises(UnsupportedParameter) as refusal:
        check_messages({"model": "small", "tool_choice": single})
    assert refusal.value.param == "tool_choice.disable_parallel_tool_use"
    check_messages({"model": "claude", "tool_choice": single})
    check_messages({"model": "small", "tool_choice": {"type": "auto"}})
    check_messages({"model": "small"})


def test_an_unknown_name_that_is_no_unicode_can_be_told() -> None:
    assert json.dumps(unknown("a\ud800").body(), ensure_ascii=False).encode()
