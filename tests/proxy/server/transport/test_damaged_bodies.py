"""A body of any bytes is a JSON object, or a refusal."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.effort import repeats
from toolgate_core.errors import InvalidRequest, RequestTooLarge
from toolgate_proxy.server.body_guard import check_bounds
from toolgate_proxy.server.transport import body

WORDS = (
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b'"',
        b'"a"',
        b"null",
        b"NaN",
        b"-",
        b"1e999",
        b"\\u0000",
    ),
    *(b"\\ud800", b"\xff", b"\xef\xbb\xbf", b"\x00", b"0" * 5000, b" ", b"\\"),
)
contents = st.lists(st.sampled_from(WORDS), max_size=30).map(b"".join) | st.binary(max_size=60)


async def parsed(content: bytes) -> Any:
    scope = {"type": "http", "headers": [(b"content-type", b"application/json")]}
    try:
        return await body.RequestBody(content).parsed(scope, check_bounds)
    except (InvalidRequest, RequestTooLarge):
        return None


@settings(max_examples=repeats(100, nightly=300))
@example(b"[" * 100_000)
@example(b'{"a":' * 100_000)
@example(b'{"a":' * 900 + b"1" + b"}" * 900)
@example(b'{"a":' + b"9" * 5000 + b"}")
@example(b'{"a":"' + b"\\" * 99_999 + b'"}')
@given(contents)
async def test_damaged_bodies_are_refused(content: bytes) -> None:
    found = await parsed(content)
    assert found is None or isinstance(found, dict)


@settings(max_examples=100)
@given(
    st.dictionaries(
        st.text(max_size=5), st.integers(-(2**63), 2**63 - 1) | st.text(max_size=9) | st.none()
    )
)
async def test_objects_are_read_as_they_are(values: dict[str, Any]) -> None:
    text = json.dumps(values)
    assert await parsed(text.encode()) == json.loads(text)
