"""The gateway's own route in this process."""

from __future__ import annotations

import pytest
from litellm.proxy import proxy_server

from tests.support.litellm.mcp import shop
from tests.support.litellm.own_route_process import own_route
from tests.support.servers.search_engine import running


@pytest.fixture
async def gateway(backend, monkeypatch):
    async with own_route(backend, monkeypatch) as made:
        yield made


@pytest.fixture
async def calls(tmp_path):
    """LiteLLM has the MCP server `shop`: the file of the calls that it ran."""
    async with shop(tmp_path / "calls"):
        yield tmp_path / "calls"


@pytest.fixture
def engine(gateway):
    """LiteLLM's router has the search tool `searx`, which asks this engine."""
    with running() as engine:
        params = {"search_provider": "searxng", "api_base": engine.url}
        proxy_server.llm_router.search_tools = [
            {"search_tool_name": "searx", "litellm_params": params}
        ]
        yield engine
