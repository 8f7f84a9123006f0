from __future__ import annotations

import json
from typing import Any

import pytest

from toolgate_core.errors import InvalidRequest
from toolgate_proxy.body_guard import parse
from toolgate_proxy.request_shape import check_shape


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
