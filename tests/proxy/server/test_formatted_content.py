"""Content with a format is validated at its end, as calls are: a backend whose masks are wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.litellm.own_route import PATHS, Gateway, body_of
from tests.support.servers.script import Script, call

SCHEMA = {"type": "object", "properties": {"código": {"type": "boolean"}}, "required": ["código"]}
VALID, INVALID = json.dumps({"código": True}), '{"c༽igo": true}'
NAMED = {"name": "x", "schema": SCHEMA}
LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
FORMATS: dict[str, dict[str, Any]] = {
    "chat": {"response_format": {"type": "json_schema", "json_schema": NAMED}},
    "responses": {"text": {"format": {"type": "json_schema", **NAMED}}},
    "messages": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
}
NORMAL_ENDS = ('"finish_reason": "stop"', '"response.completed"', '"message_stop"')


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", PATHS)
async def test_content_that_violates_its_format_is_an_error_and_no_normal_end(
    gateway: Gateway, api: str, stream: bool
) -> None:
    gateway.backend.turns = [Script((INVALID,), pause=0.01), Script((VALID,))]
    body = body_of(api, "go", stream=stream, **FORMATS[api])
    response = await gateway.ask(body, path=PATHS[api])
    assert response.status == (200 if stream else 500)
    shown = response.events if stream else [response.json]
    error = shown[-1].get("response", shown[-1])["error"]
    assert "The model's content violates its schema" in error["message"]
    assert "enforcement_failed" in json.dumps(shown[-1])
    assert not any(end in json.dumps(shown) for end in NORMAL_ENDS)
    response = await gateway.ask(body, path=PATHS[api])
    assert response.status == 200
    assert not any('"error": {' in json.dumps(each) for each in (response.events if stream else ()))


OBJECT = {"response_format": {"type": "json_object"}}
CHOICE = {"structured_outputs": {"choice": ["a", "no"]}}
REGEX = {"structured_outputs": {"regex": "[a-c]+"}}
CONTENT: dict[str, tuple[dict[str, Any], str, str, bool]] = {
    "cut by max_tokens": (FORMATS["chat"], INVALID, "length", True),
    "cut by a stop string": (FORMATS["chat"] | {"stop": ["igo"]}, INVALID, "stop", True),
    "a call instead": (FORMATS["chat"] | {"tools": [LOOK]}, call("look", {}), "stop", True),
    "text before a JSON value": (FORMATS["chat"], f"Sure: {VALID}", "stop", False),
    "nothing": (FORMATS["chat"], "", "stop", False),
    "half of a surrogate pair": (OBJECT, r'{"a": "\ud83d"}', "stop", False),
    "an object": (OBJECT, INVALID, "stop", True),
    "an array for an object": (OBJECT, "[1]", "stop", False),
    "one of the texts": (CHOICE, "no", "stop", True),
    "another text": (CHOICE, "not", "stop", False),
    "a match": (REGEX, "abc", "stop", True),
    "no match": (REGEX, "abcd", "stop", False),
}


@pytest.mark.parametrize("name", CONTENT)
async def test_content_is_validated_by_its_format_unless_it_was_cut(
    gateway: Gateway, name: str
) -> None:
    asked, text, finish, is_valid = CONTENT[name]
    gateway.backend.turns = [Script((text,), finish=finish)]
    response = await gateway.ask(body_of("chat", "go", **asked))
    assert response.status == (200 if is_valid else 500), response.json
