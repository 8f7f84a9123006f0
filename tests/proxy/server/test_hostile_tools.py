"""Tools of one request that are hostile: a fast 400 with its reason, and no harm to other keys."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.proxy.validation.test_service import TREE
from tests.support.litellm.own_route import Gateway, Response, body_of
from tests.support.schemas.hostile import endless_validation
from tests.support.servers.script import Script, call
from tests.support.servers.virtual_keys import key_of

FLOOD = 40
"""Calls whose validation takes all the processor time that it may have, a second."""


def nested(levels: int) -> str:
    return '{"type":"object","properties":{"a":' * levels + "{}" + "}}" * levels


def of(schema: str) -> str:
    return f'{{"type":"object","properties":{{"a":{schema}}}}}'


HOSTILE = {
    "40 objects deep": (nested(40), "schema_too_complex"),
    "20,000 levels": (nested(10_000), "invalid"),
    "6,000 properties": (
        json.dumps({"type": "object", "properties": {f"p{at}": {} for at in range(6_000)}}),
        "schema_too_complex",
    ),
    "a pattern of 1.2 MB": (of(json.dumps({"pattern": "x" * 1_200_000})), "schema_too_complex"),
    "60,000 values": (of(json.dumps({"x-data": [0] * 60_000})), "schema_too_complex"),
    "a remote reference": (of('{"$ref":"https://example.com/schema"}'), "schema_not_enforceable"),
    "a lone surrogate": ('{"type":"object","properties":{"\\ud800":{}}}', "invalid"),
    "NaN": (of('{"maximum":NaN}'), "invalid"),
    "a huge number": (of('{"maximum":1e999}'), "invalid"),
}
ALLOWED = (of('{"$ref":"#"}'), nested(15), '{"type":"object"}')


async def ask(gateway: Gateway, parameters: str) -> Response:
    tool = {"type": "function", "function": {"name": "t", "parameters": "HERE"}}
    body = json.dumps(body_of("chat", tools=[tool])).replace('"HERE"', parameters)
    return await gateway.ask(body.encode())


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_schema_is_a_400_with_its_reason(gateway, name):
    parameters, code = HOSTILE[name]
    answer = await ask(gateway, parameters)
    assert answer.status == 400
    error = answer.json["error"]
    assert error["code"].startswith(code), error
    if code != "invalid":
        assert error["param"] == "tools[0].function.parameters"
        assert "pointer" in error
    assert len(b"".join(answer.bodies)) < 2_000
    assert not gateway.backend.loads


async def test_large_and_recursive_schemas_reach_the_backend(gateway):
    for parameters in ALLOWED:
        gateway.backend.forget()
        gateway.backend.loads.clear()
        assert (await ask(gateway, parameters)).status == 200
        assert gateway.backend.loads == [("t",)]


def function(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    tool = {"type": "function", "function": {"name": name, "parameters": schema}}
    return body_of("chat", name, tools=[tool])


@pytest.mark.timed
async def test_a_key_with_endless_schemas_leaves_a_worker_to_others(gateway):
    assert gateway.here.key_sync is not None
    keys = [key_of(f"sk-{name}") for name in ("hostile", "other")]
    gateway.here.key_sync.key_cache.replace([], keys)
    schema, arguments = endless_validation()
    gateway.backend.scripts |= {
        "endless": Script((call("endless", arguments),)),
        "tree": Script((call("tree", {"root": {"n": 1}}),)),
    }
    endless = function("endless", schema)
    attack = [
        asyncio.create_task(gateway.ask(endless, key="sk-hostile", within=120))
        for _ in range(FLOOD)
    ]
    try:
        await asyncio.sleep(1)
        for _ in range(3):
            answer = await gateway.ask(function("tree", TREE), key="sk-other", within=60)
            assert answer.status == 200, answer.bodies
            (made,) = answer.json["choices"][0]["message"]["tool_calls"]
            assert json.loads(made["function"]["arguments"]) == {"root": {"n": 1}}
        assert not all(task.done() for task in attack)
    finally:
        for task in attack:
            task.cancel()
        ended = await asyncio.gather(*attack, return_exceptions=True)
    assert not [each for each in ended if isinstance(each, Response) and each.status == 200]
