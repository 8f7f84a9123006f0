"""The gate's own decisions; what it does around a request is shown by the gateway's tests."""

from __future__ import annotations

import pytest

from toolgate_proxy import gate


@pytest.mark.parametrize(
    ("body", "more", "last"),
    [
        (b"data: [DONE]\n\n", True, True),
        (b'data: {"choices":[]}\n\ndata: [DONE]\n\n', True, True),
        (b'data: {"choices":[]}\n\n', True, False),
        (b'data: {"choices":[{"delta":{"content":"then data: [DONE] ends it"}}]}\n\n', True, False),
        (b'data: {"prompt_text":"\\ndata: [DONE]"}\n\n', True, False),
        (b"", False, True),
    ],
)
def test_a_stream_ends_by_its_last_line_not_by_a_text_about_it(
    body: bytes, more: bool, last: bool
) -> None:
    message = {"type": "http.response.body", "body": body, "more_body": more}
    assert gate._is_last(message) is last
