"""Content with a format, and calls, are validated at their end: a backend whose masks are wrong."""

from __future__ import annotations

import json

import pytest

from tests.proxy.server import kit
from tests.proxy.server.kit import APIS, STREAM, function
from tests.support.servers.script import Script, call
from toolgate_core import wire

SCHEMA = {"type": "object", "properties": {"código": {"type": "boolean"}}, "required": ["código"]}
VALID, INVALID = json.dumps({"código": True}), '{"c༽igo": true}'
NAMED = {"name": "x", "schema": SCHEMA}
FORMATS = {
    "chat": {"response_format": {"type": "json_schema", "json_schema": NAMED}},
    "responses": {"text": {"format": {"type": "json_schema", **NAMED}}},
    "messages": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
}
NORMAL_ENDS = ('"finish_reason": "stop"', '"response.completed"', '"message_stop"')


@STREAM
@APIS
async def test_content_that_violates_its_format_is_an_error_and_no_normal_end(gateway, api, stream):
    given = {"stream": stream, **FORMATS[api]}
    failed = await kit.ask(gateway, api, Script((INVALID,), pause=0.01), **given)
    shown = failed.response.events if stream else [failed.response.json]
    assert failed.status == (200 if stream else 500)
    assert "The model's content violates its schema" in failed.error["message"]
    assert "enforcement_failed" in json.dumps(shown[-1])
    assert not any(end in json.dumps(shown) for end in NORMAL_ENDS)
    assert (await kit.ask(gateway, api, VALID, **given)).text == VALID


CHAT = FORMATS["chat"]
OBJECT = {"response_format": {"type": "json_object"}}
CHOICE = {"structured_outputs": {"choice": ["a", "no"]}}
REGEX = {"structured_outputs": {"regex": "[a-c]+"}}
LOOK = {"tools": [function("chat", "look", {"type": "object"})]}
CONTENT = {
    "cut by max_tokens": (CHAT, INVALID, "length", True),
    "cut by a stop string": (CHAT | {"stop": ["igo"]}, INVALID, "stop", True),
    "a call instead": (CHAT | LOOK, call("look", {}), "stop", True),
    "text before a JSON value": (CHAT, f"Sure: {VALID}", "stop", False),
    "nothing": (CHAT, "", "stop", False),
    "half of a surrogate pair": (OBJECT, r'{"a": "\ud83d"}', "stop", False),
    "an object": (OBJECT, INVALID, "stop", True),
    "an array for an object": (OBJECT, "[1]", "stop", False),
    "one of the texts": (CHOICE, "no", "stop", True),
    "another text": (CHOICE, "not", "stop", False),
    "a match": (REGEX, "abc", "stop", True),
    "no match": (REGEX, "abcd", "stop", False),
}


@pytest.mark.parametrize("name", CONTENT)
async def test_content_is_validated_by_its_format_unless_it_was_cut(gateway, name):
    asked, text, finish, is_valid = CONTENT[name]
    reply = await kit.ask(gateway, "chat", Script((text,), finish=finish), **asked)
    assert reply.status == (200 if is_valid else 500), reply.response.bodies


@STREAM
@pytest.mark.parametrize("finish", ["stop", "length"])
@pytest.mark.parametrize("residual", [False, True])
async def test_a_mark_inside_a_call_is_an_error(gateway, stream, finish, residual):
    if residual:
        gateway.backend.residual["look"] = (wire.ResidualKeyword(pointer="/a", keyword="a"),)
    turn = Script((call("look", {"a": "<think>"}),), finish=finish)
    given = {"tools": [function("responses", "look", {"type": "object"})], "stream": stream}
    error = (await kit.ask(gateway, "responses", turn, **given)).error
    assert error["code"] in ("enforcement_failed", "server_error")
    assert "masks were not applied" in error["message"]
