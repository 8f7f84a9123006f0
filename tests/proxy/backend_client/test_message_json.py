"""Messages to a backend as JSON, whole or in pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolgate_core import wire
from toolgate_core.errors import InvalidRequest
from toolgate_proxy.backend_client.message_json import LONG, Pieces, encoded


def request(*messages: dict[str, Any]) -> wire.GenerateRequest:
    return wire.GenerateRequest(
        request_id="r", model="tiny", prompt=wire.ChatPrompt(messages=messages)
    )


def user(content: object) -> dict[str, Any]:
    return {"role": "user", "content": content}


@pytest.mark.parametrize(
    "messages",
    [
        [user("x" * LONG)],
        [user("a"), user('"\\\n\x00é€😀' * LONG), user("b" * (2 * LONG + 1)), user("")],
        [user([{"type": "image_url", "image_url": {"url": "data:" + "A" * LONG}}, {"a": None}])],
        [user("a") | {"tool_calls": [{"function": {"arguments": "x" * (LONG + 1)}}], "n": 2**70}],
    ],
)
async def test_long_strings_are_sent_in_pieces_of_the_same_message(
    messages: list[dict[str, Any]],
) -> None:
    message = request(*messages)
    pieces = encoded(message)
    assert isinstance(pieces, Pieces)
    for _ in range(2):
        sent = [each async for each in pieces]
        assert json.loads(b"".join(sent)) == json.loads(message.model_dump_json(exclude_none=True))
        assert max(map(len, sent)) <= 6 * LONG


def test_other_messages_are_encoded_at_once() -> None:
    message = request(user("x" * (LONG - 1)))
    assert encoded(message) == message.model_dump_json(exclude_none=True).encode()


@pytest.mark.parametrize("content", ["x" * LONG + "\ud800", "\udc00" + "é" * LONG])
def test_a_long_string_that_is_not_unicode_is_refused_before_anything_is_sent(
    content: str,
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        encoded(request(user("a"), user(content)))
    assert refusal.value.param == "messages[1]"


@pytest.mark.parametrize("levels", [300, 5000])
def test_a_value_that_is_too_deep_is_refused_beside_a_long_string(levels: int) -> None:
    deep: Any = 1
    for _ in range(levels):
        deep = [deep]
    with pytest.raises(InvalidRequest) as refusal:
        encoded(request(user("x" * LONG), user(deep)))
    assert refusal.value.param == "messages[1]"
