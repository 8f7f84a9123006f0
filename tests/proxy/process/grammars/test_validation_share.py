"""A key whose tools take long to validate does not keep the calls of other keys waiting."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.proxy.validation.test_service import TREE
from tests.support.litellm.routes import OWN_ROUTE_ONLY
from tests.support.schemas.hostile import endless_validation
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.script import Script, call
from tests.support.servers.virtual_keys import make_key

pytestmark = OWN_ROUTE_ONLY
CHAT = "/v1/chat/completions"
FLOOD = 40
"""Calls whose validation takes all the processor time that it may have, a second."""
CATASTROPHIC = r"(a|aa)+[^\s\S]|(a|aa)+b"


def asked(content: str, tool: dict[str, Any]) -> dict[str, Any]:
    messages = [{"role": "user", "content": content}]
    return {"model": "tiny", "messages": messages, "tools": [tool]}


def function(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": schema}}


@pytest.mark.timed
async def test_a_key_with_endless_schemas_leaves_a_worker_to_others(
    gateway: str, backend: FakeBackend, redis_of_gateway: RedisServer
) -> None:
    hostile, _ = await make_key(redis_of_gateway.url, gateway, alias="hostile-schemas")
    other, _ = await make_key(redis_of_gateway.url, gateway, alias="other-schemas")
    schema, arguments = endless_validation()
    backend.scripts["endless"] = Script((call("endless", arguments),))
    backend.scripts["tree"] = Script((call("tree", {"root": {"n": 1}}),))
    async with http_client(gateway) as http:

        async def flood() -> int:
            body = asked("endless", function("endless", schema))
            return (await http.post(CHAT, json=body, headers=bearer(hostile))).status_code

        attack = [asyncio.create_task(flood()) for _ in range(FLOOD)]
        try:
            await asyncio.sleep(1)
            for _ in range(3):
                body = asked("tree", function("tree", TREE))
                answer = await http.post(CHAT, json=body, headers=bearer(other))
                assert answer.status_code == 200, answer.text[:300]
                (made,) = answer.json()["choices"][0]["message"]["tool_calls"]
                assert json.loads(made["function"]["arguments"]) == {"root": {"n": 1}}
            assert not all(task.done() for task in attack)
        finally:
            for task in attack:
                task.cancel()
            results = await asyncio.gather(*attack, return_exceptions=True)
    assert 200 not in results


async def test_a_catastrophic_expression_of_a_custom_tool_is_read_in_linear_time(
    gateway: str, backend: FakeBackend, key: str
) -> None:
    given = {"syntax": "regex", "definition": CATASTROPHIC}
    custom = {"name": "spell", "format": {"type": "grammar", "grammar": given}}
    backend.scripts["spell"] = Script((call("spell", {"input": "a" * 2_000 + "b"}),))
    body = asked("spell", {"type": "custom", "custom": custom})
    async with http_client(gateway) as http:
        async with asyncio.timeout(60):
            answers = await asyncio.gather(
                *(http.post(CHAT, json=body, headers=bearer(key)) for _ in range(20))
            )
        assert {each.status_code for each in answers} == {200}
        (made,) = answers[0].json()["choices"][0]["message"]["tool_calls"]
        assert made["custom"]["input"] == "a" * 2_000 + "b"
        metrics = (await http.get("/toolgate/metrics")).text
    assert 'toolgate_custom_calls_total{result="too_long"}' not in metrics
