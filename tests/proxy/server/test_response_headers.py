"""Values of response headers: no line breaks, bounded sizes."""

from __future__ import annotations

import pytest

from toolgate_proxy.context import RequestContext
from toolgate_proxy.server.response_headers import (
    CUT,
    MAX_OTHER,
    MAX_OWN,
    own_headers,
    own_value,
    response_headers,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("full", b"full"),
        ("a\r\nset-cookie: b=c", b"a??set-cookie: b=c"),
        ("a\x00\x7f\tb", b"a???b"),
        ("modèle 模型", b"mod?le ??"),
        ("x" * MAX_OWN, b"x" * MAX_OWN),
        ("x" * 300_000, b"x" * (MAX_OWN - len(CUT)) + CUT),
        ("模" * 300_000, b"?" * (MAX_OWN - len(CUT)) + CUT),
    ],
)
def test_values_of_our_own_are_printable_and_bounded(text: str, value: bytes) -> None:
    assert own_value(text) == value


def test_values_of_others_have_no_line_breaks_and_are_left_out_if_they_are_too_large() -> None:
    given = [
        (b"x-litellm-model-group", b"a\r\nb: c"),
        (b"set-cookie", b"a=" + b"x" * 4_000),
        (b"llm_provider-large", b"x" * (MAX_OTHER + 1)),
        (b"x-name", "é".encode("latin-1")),
    ]
    assert response_headers(given, {}) == [
        (b"x-litellm-model-group", b"a??b: c"),
        given[1],
        given[3],
    ]


def test_names_from_a_request_can_not_end_the_headers() -> None:
    context = RequestContext.with_request_id("req-1")
    context.ignored_parameters = ["a\r\n\r\nb", "c" * 300_000]
    context.omitted_tools = ["web_search"]
    sent = dict(response_headers([], own_headers(context)))
    ignored = sent[b"x-toolgate-ignored-parameters"]
    assert ignored.startswith(b"a????b,ccc")
    assert len(ignored) == MAX_OWN
    assert sent[b"x-toolgate-omitted-tools"] == b"web_search"
