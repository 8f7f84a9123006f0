"""The gateway's own route in this process, and LiteLLM's MCP servers for all tests of a module."""

import asyncio
from contextlib import contextmanager

import pytest

from tests.support.litellm.mcp import LIST_SECONDS, serving
from tests.support.litellm.own_route_process import own_route
from tests.support.servers import mcp_shop
from tests.support.servers.search_engine import running
from toolgate_proxy.litellm_host.routing.router import router_settings


@pytest.fixture
async def gateway(backend, monkeypatch):
    async with own_route(backend, monkeypatch) as made:
        yield made


@contextmanager
def configured(**servers):
    """LiteLLM has these MCP servers, and has listed their tools."""
    made = serving(**servers)

    async def begin():
        await made.__aenter__()
        if listing := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(listing, timeout=LIST_SECONDS)

    async def end():
        await made.__aexit__(None, None, None)

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(begin())
        yield
        runner.run(end())


@pytest.fixture(scope="module")
def calls_of_module(tmp_path_factory):
    calls = tmp_path_factory.mktemp("shop") / "calls"
    with configured(shop=mcp_shop.command(calls)):
        yield calls


@pytest.fixture
def calls(calls_of_module):
    """LiteLLM has the MCP server `shop`: the file of the calls that it ran."""
    calls_of_module.unlink(missing_ok=True)
    return calls_of_module


@pytest.fixture
def engine(gateway):
    """LiteLLM's router has the search tool `searx`, which asks this engine."""
    with running() as engine:
        params = {"search_provider": "searxng", "api_base": engine.url}
        router_settings().search_tools[:] = [
            {"search_tool_name": "searx", "litellm_params": params}
        ]
        yield engine
