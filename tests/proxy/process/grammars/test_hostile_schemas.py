"""Hostile schemas get a fast response: a 400 with its reason, or the backend's response."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.script import Script

OBJECT: dict[str, Any] = {"type": "object"}


def nested(levels: int) -> str:
    return '{"type":"object","properties":{"a":' * levels + "{}" + "}}" * levels


def properties(count: int) -> dict[str, Any]:
    return OBJECT | {"properties": {f"p{at}": {} for at in range(count)}}


HOSTILE: dict[str, tuple[str, str]] = {
    "40 objects deep": (nested(40), "schema_too_complex"),
    "20,000 levels": (nested(10_000), "invalid"),
    "6,000 properties": (json.dumps(properties(6_000)), "schema_too_complex"),
    "2,000 enum values": (
        json.dumps(OBJECT | {"properties": {"a": {"enum": list(range(2_000))}}}),
        "schema_too_complex",
    ),
    "200,000 characters": (
        json.dumps(OBJECT | {"properties": {"a": {"const": "x" * 200_000}}}),
        "schema_too_complex",
    ),
    "a pattern of 1.2 MB": (
        json.dumps(OBJECT | {"properties": {"a": {"pattern": "x" * 1_200_000}}}),
        "schema_too_complex",
    ),
    "60,000 values": (
        json.dumps(OBJECT | {"properties": {"a": {"x-data": [0] * 60_000}}}),
        "schema_too_complex",
    ),
    "a remote reference": (
        json.dumps(OBJECT | {"properties": {"a": {"$ref": "https://example.com/schema"}}}),
        "schema_not_enforceable",
    ),
    "a lone surrogate": ('{"type":"object","properties":{"\\ud800":{}}}', "invalid"),
    "NaN": ('{"type":"object","properties":{"a":{"maximum":NaN}}}', "invalid"),
    "a huge number": ('{"type":"object","properties":{"a":{"maximum":1e999}}}', "invalid"),
}


async def ask(http: httpx.AsyncClient, parameters: str) -> httpx.Response:
    body = json.dumps(
        {
            "model": "tiny",
            "messages": [{"role": "user", "content": "hi"}],
            "tools": [{"type": "function", "function": {"name": "t", "parameters": "HERE"}}],
        }
    ).replace('"HERE"', parameters)
    headers = {"Content-Type": "application/json"}
    return await http.post("/v1/chat/completions", content=body, headers=headers)


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_schema_returns_400(
    http: httpx.AsyncClient, backend: FakeBackend, name: str
) -> None:
    backend.scripts["hi"] = Script(("Hello",))
    parameters, code = HOSTILE[name]
    answer = await ask(http, parameters)
    assert answer.status_code == 400, answer.text[:500]
    error = answer.json()["error"]
    assert error["code"].startswith(code), error
    if code != "invalid":
        assert error["param"] == "tools[0].function.parameters"
        assert "pointer" in error
    assert len(answer.content) < 2_000
    assert not backend.loads
    assert (await ask(http, '{"type":"object"}')).status_code == 200


@pytest.mark.parametrize(
    "parameters",
    [
        OBJECT | {"properties": {"a": {"$ref": "#"}}},
        OBJECT
        | {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}},
        properties(5_000),
        json.loads(nested(15)),
    ],
)
async def test_large_but_allowed_schema_reaches_the_backend(
    http: httpx.AsyncClient, backend: FakeBackend, parameters: dict[str, Any]
) -> None:
    backend.scripts["hi"] = Script(("Hello",))
    backend.forget()
    assert (await ask(http, json.dumps(parameters))).status_code == 200
    assert backend.loads == [("t",)]
