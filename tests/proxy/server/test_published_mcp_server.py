"""An MCP server as it is published on PyPI, whose tool the gateway runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.agents.client_packages import mcp_python
from tests.support.litellm.mcp import serving
from tests.support.litellm.own_route import PATHS, Gateway, body_of
from tests.support.servers.script import Script, call

NAME, URL = "calculator-calculate", "litellm_proxy/mcp/calculator"
ENTRY = {"type": "mcp", "server_label": "c", "server_url": URL, "require_approval": "never"}
BODIES: dict[str, dict[str, Any]] = {
    "responses": {"tools": [ENTRY]},
    "messages": {
        "mcp_servers": [{"type": "url", "name": "c", "url": URL}],
        "tools": [{"type": "mcp_toolset", "mcp_server_name": "c"}],
    },
}


@pytest.fixture
async def calculator() -> AsyncIterator[None]:
    arguments = ["-m", "mcp_server_calculator"]
    command = {"transport": "stdio", "command": str(mcp_python()), "args": arguments}
    async with serving(calculator=command):
        yield


@pytest.mark.usefixtures("calculator")
@pytest.mark.parametrize("api", BODIES)
async def test_a_published_server_computes(gateway: Gateway, api: str) -> None:
    expressions = ("6*7", "sqrt(16)+1", "import os")
    turns = [call(NAME, {"expression": each}) for each in expressions]
    gateway.backend.turns = [Script((text,)) for text in (*turns, "Done.")]
    response = await gateway.ask(body_of(api, "go", **BODIES[api]), path=PATHS[api])
    assert response.status == 200, response.bodies
    results = [each["content"] for each in gateway.backend.messages() if each["role"] == "tool"]
    assert results[:2] == ["42", "5.0"]
    assert "rror" in results[2]
