"""Which tools that the gateway runs a key of `toolgate keys` may use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from litellm.proxy import proxy_server
from litellm.proxy._types import LiteLLM_ObjectPermissionTable, UserAPIKeyAuth
from litellm.proxy.auth import auth_checks

from tests.support.litellm.mcp import FAIL, LOOKUP, ODD, ran
from tests.support.litellm.own_route import PATHS, Gateway, Response, body_of
from tests.support.servers.script import Script, call
from tests.support.servers.search_engine import SearchEngine, running
from tests.support.servers.virtual_keys import key_of
from toolgate_proxy.keys.key import new_key
from toolgate_proxy.litellm_host.operator_tools import may_search
from toolgate_proxy.server.response_headers import own_headers

SHOP = {
    "type": "mcp",
    "server_label": "shop",
    "server_url": "litellm_proxy/mcp/shop",
    "require_approval": "never",
}
SEARCH = {"responses": {"type": "web_search"}}
SEARCH["messages"] = {"type": "web_search_20250305", "name": "web_search"}

DENIES = pytest.mark.skipif(
    not hasattr(auth_checks, "can_token_call_search_tool"),
    reason="This LiteLLM has no search_tool_deny_by_default.",
)


@pytest.fixture
def engines(gateway: Gateway) -> Iterator[SearchEngine]:
    """The search engine behind the search tools `first` and `second`."""
    with running() as engine:
        params = {"search_provider": "searxng", "api_base": engine.url}
        proxy_server.llm_router.search_tools = [
            {"search_tool_name": name, "litellm_params": params} for name in ("first", "second")
        ]
        yield engine


async def ask(gateway: Gateway, body: dict[str, Any], path: str, **terms: Any) -> Response:
    sent = new_key()
    gateway.add_key(sent, key_of(sent, **terms))
    return await gateway.ask(body, path=path, key=sent)


@pytest.mark.parametrize(
    ("servers", "tools"),
    [
        ((), []),
        (("other",), []),
        (("shop",), [LOOKUP, FAIL, ODD]),
        (("other", "shop/lookup"), [LOOKUP]),
        (("shop/nothing",), []),
        (("shop", "shop/lookup"), [LOOKUP, FAIL, ODD]),
        (("no-mcp-servers",), []),
    ],
)
async def test_a_key_lists_the_tools_that_it_may_use(
    gateway: Gateway, calls: Path, servers: tuple[str, ...], tools: list[str]
) -> None:
    del calls
    gateway.backend.turns = [Script(("Hello.",))]
    body = body_of("responses", "go", tools=[SHOP])
    response = await ask(gateway, body, PATHS["responses"], mcp_servers=servers)
    assert response.status == 200, response.bodies
    listed = response.json["output"][0]
    assert [tool["name"] for tool in listed["tools"]] == tools
    assert bool(listed.get("error")) is not bool(tools)
    assert set(gateway.backend.callable_tools()) == set(tools) - {ODD}


async def test_a_permitted_call_runs(gateway: Gateway, calls: Path) -> None:
    gateway.backend.turns = [Script((call(LOOKUP, {"id": 7}),)), Script(("Done.",))]
    body = body_of("responses", "go", tools=[SHOP])
    response = await ask(gateway, body, PATHS["responses"], mcp_servers=("shop/lookup",))
    assert response.json["output"][1]["output"] == "lookup found record 7."
    assert ran(calls) == [{"id": 7}]


@pytest.mark.parametrize("api", SEARCH)
@pytest.mark.parametrize(
    ("allowed", "denied", "used"),
    [
        ((), False, True),
        (("second",), False, True),
        (("third",), False, False),
        pytest.param((), True, False, marks=DENIES),
        (("second",), True, True),
    ],
)
async def test_a_key_searches_with_a_tool_that_it_may_use(
    gateway: Gateway,
    engines: SearchEngine,
    api: str,
    allowed: tuple[str, ...],
    denied: bool,
    used: bool,
) -> None:
    """`denied`: tools that no permission names."""
    proxy_server.general_settings["search_tool_deny_by_default"] = denied
    turn = call("web_search", {"query": "news"}) if used else "No."
    gateway.backend.turns = [Script((turn,)), Script(("Done.",))]
    body = body_of(api, "go", tools=[SEARCH[api]])
    response = await ask(gateway, body, PATHS[api], search_tools=allowed)
    assert response.status == 200, response.bodies
    assert engines.queries == (["news"] if used else [])
    assert ("x-toolgate-omitted-tools" in own_headers(response.context)) is not used


@pytest.mark.parametrize("layer", ["object_permission", "team_object_permission"])
async def test_a_key_of_litellms_database_needs_its_own_permission_and_its_teams(
    layer: str,
) -> None:
    table = LiteLLM_ObjectPermissionTable(object_permission_id="p", search_tools=["first"])
    caller = UserAPIKeyAuth(api_key="hash", **{layer: table})
    assert await may_search("first", caller)
    assert not await may_search("second", caller)
