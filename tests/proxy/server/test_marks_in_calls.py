"""A backend without masks that writes a mark inside a call: the response ends with an error."""

from __future__ import annotations

import pytest

from tests.support.litellm.own_route import PATHS, Gateway, body_of
from tests.support.servers.script import Script
from toolgate_core import wire

TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}}
CALL = '<tool_call>\n{"name": "look", "arguments": {"a": "<think>"}}\n</tool_call>'


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("finish", ["stop", "length"])
@pytest.mark.parametrize("residual", [False, True])
async def test_a_mark_inside_a_call_is_an_error(
    gateway: Gateway, stream: bool, finish: str, residual: bool
) -> None:
    backend = gateway.backend
    backend.turns = [Script((CALL,), finish=finish)]
    if residual:
        backend.residual["look"] = (wire.ResidualKeyword(pointer="/a", keyword="a"),)
    body = body_of("responses", "go", tools=[TOOL], stream=stream)
    response = await gateway.ask(body, path=PATHS["responses"])
    if response.status == 200:
        error = response.events[-1]["response"]["error"]
    else:
        error = response.json["error"]
    assert error["code"] in ("enforcement_failed", "server_error")
    assert "masks were not applied" in error["message"]
