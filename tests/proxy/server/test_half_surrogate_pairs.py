"""Half of a surrogate pair in a request: the error has its place and the cause."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.litellm.own_route import CHAT, Gateway

TOOL = (
    '{"type":"function","function":{"name":"open","description":"D","parameters":'
    '{"type":"object","properties":{"room":{"enum":["ok"]},"key":{"type":"string"}}}}}'
)
CUT = r"cut \ud83d"
PARAMETERS = "tools[0].function.parameters"


def said(text: str = "hi") -> str:
    return f'"messages":[{{"role":"user","content":"{text}"}}]'


def offered(old: str, new: str) -> str:
    """The tool with a change."""
    return f'{said()},"tools":[{TOOL.replace(old, new)}]'


CASES: dict[str, tuple[str, str, str, str]] = {
    "a message": (CHAT, said(CUT), "messages[0]", "/content"),
    "an input": ("/v1/responses", f'"input":"{CUT}"', "input", "/content"),
    "of Messages": ("/v1/messages", f'"max_tokens":9,{said(CUT)}', "messages[0]", "/content"),
    "an enum": (CHAT, offered("ok", r"a\ud83d"), PARAMETERS, "/properties/room/enum/0"),
    "a name": (CHAT, offered("key", r"k\ud83d"), PARAMETERS, r"/properties/k\ud83d"),
    "a description": (CHAT, offered("D", r"d\ud83d"), "tools", "/0/function/description"),
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
