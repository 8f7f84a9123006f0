"""Half of a surrogate pair in a request: the error has its place and the cause."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.litellm.own_route import CHAT, Gateway

TOOL = (
    '{"type":"function","function":{"name":"open","description":"D","parameters":'
    '{"type":"object","properties":{"room":{"enum":["ok"]},"key":{"type":"string"}}}}}'
)
CASES: dict[str, tuple[str, str, str, str]] = {
    "a message": (
        CHAT,
        r'"messages":[{"role":"user","content":"cut \ud83d"}]',
        "messages[0]",
        "/content",
    ),
    "an input": ("/v1/responses", r'"input":"cut \ud83d"', "input", "/content"),
    "a message of Messages": (
        "/v1/messages",
        r'"max_tokens":9,"messages":[{"role":"user","content":"cut \ud83d"}]',
        "messages[0]",
        "/content",
    ),
    "an enum": (
        CHAT,
        '"messages":[{"role":"user","content":"hi"}],"tools":['
        + TOOL.replace("ok", r"a\ud83d")
        + "]",
        "tools[0].function.parameters",
        "/properties/room/enum/0",
    ),
    "a name": (
        CHAT,
        '"messages":[{"role":"user","content":"hi"}],"tools":['
        + TOOL.replace("key", r"k\ud83d")
        + "]",
        "tools[0].function.parameters",
        r"/properties/k\ud83d",
    ),
    "a description": (
        CHAT,
        '"messages":[{"role":"user","content":"hi"}],"tools":['
        + TOOL.replace("D", r"d\ud83d")
        + "]",
        "tools",
        "/0/function/description",
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_the_error_names_the_place_and_the_cause(gateway: Gateway, name: str) -> None:
    path, members, param, pointer = CASES[name]
    response = await gateway.ask(b'{"model":"tiny",' + members.encode() + b"}", path=path)
    error: dict[str, Any] = response.json["error"]
    assert response.status == 400
    assert error["param"] == param
    assert r"half of a surrogate pair (\ud83d" in error["message"]
    assert pointer in error["message"]
