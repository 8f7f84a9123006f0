"""Credentials that clients send for MCP servers: only the server that the entry names gets them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import litellm
import pytest
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy import proxy_server
from litellm.proxy._experimental.mcp_server.mcp_server_manager import global_mcp_server_manager

from tests.support.litellm.fallbacks import BROKEN, configure
from tests.support.litellm.mcp import LOOKUP, serving
from tests.support.litellm.own_route import MASTER, PATHS, Gateway, Response, body_of
from tests.support.servers.mcp_http import HttpShop, running
from tests.support.servers.script import Script, call
from tests.support.servers.virtual_keys import key_of
from tests.support.waiting import until
from toolgate_proxy.litellm_host.mcp_credentials import McpCredentials
from toolgate_proxy.server.logs import log_filters

SECRET = "s3cret-of-the-client"
TOKEN_HEADER = "mcp_client_side_auth_header_name"
TOKEN = {"chat": "authorization", "responses": "authorization", "messages": "authorization_token"}
OF_AUTHORIZATION = "incoming_bearer_token"
"""What LiteLLM gives hooks before a tool call, which may check or exchange the token."""
CALL = call(LOOKUP, {"id": 7})
Json = dict[str, Any]
Shops = tuple[HttpShop, HttpShop]
pytestmark = pytest.mark.usefixtures("shops")


@pytest.fixture
async def shops() -> AsyncIterator[Shops]:
    """The servers `shop` and `other`."""
    with running() as shop, running() as other:
        async with serving(
            shop={"url": shop.url, "transport": "http", "extra_headers": ["x-tenant"]},
            other={"url": other.url, "transport": "http", "extra_headers": ["x-tenant"]},
        ):
            # LiteLLM lists the tools of all servers when they are configured.
            await until(
                lambda: shop.sent("x").get("tools/list") and other.sent("x").get("tools/list")
            )
            shop.requests.clear()
            other.requests.clear()
            yield shop, other


@pytest.fixture
def _filters() -> Iterator[None]:
    """Those of the log of a gateway."""
    loggers = [logging.getLogger(name) for name in (*log_filters.LITELLM, "uvicorn.error")]
    held = [(logger, [*logger.filters]) for logger in loggers]
    log_filters.set_up()
    yield
    for logger, filters in held:
        logger.filters[:] = filters


class Seen(CustomLogger):  # type: ignore[misc]  # LiteLLM's types are not read
    """Notes all that callbacks get."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.ended = 0

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: Json, call_type: str
    ) -> Json:
        self.texts.append(repr({**data, OF_AUTHORIZATION: None}))
        if "secret_fields" in data:  # whose headers do not show themselves; a tool call has none
            self.texts.append(repr({**data["secret_fields"]["raw_headers"]}))
        return data

    async def async_log_success_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        self.texts += [repr(kwargs), repr(response_obj)]
        self.ended += kwargs["call_type"] != "call_mcp_tool"


def entry(api: str, server: str = "shop", **more: Any) -> Json:
    url = f"litellm_proxy/mcp/{server}"
    if api == "messages":
        return {"type": "url", "name": server, "url": url, **more}
    return {
        "type": "mcp",
        "server_label": server,
        "server_url": url,
        "require_approval": "never",
        **more,
    }


async def ask(
    gateway: Gateway,
    api: str,
    *entries: Json,
    sent: dict[str, str] | None = None,
    key: str | None = MASTER,
    **params: Any,
) -> Response:
    """`sent`: headers of the request."""
    gateway.backend.turns = [Script((CALL,)), Script(("It is record 7.",))]
    place = "mcp_servers" if api == "messages" else "tools"
    body = body_of(api, "Which record is it?", **{place: [*entries]}, **params)
    headers = [(name.encode(), value.encode()) for name, value in (sent or {}).items()]
    return await gateway.ask(body, path=PATHS[api], headers=headers, key=key)


@pytest.mark.parametrize("api", PATHS)
async def test_the_server_of_the_entry_gets_the_token(
    gateway: Gateway, shops: Shops, api: str
) -> None:
    shop, other = shops
    entries = entry(api, **{TOKEN[api]: SECRET}), entry(api, "other")
    response = await ask(gateway, api, *entries)
    assert response.status == 200, response.bodies
    found = shop.sent("authorization")
    assert {"initialize", "tools/list", "tools/call"} <= found.keys()
    assert all(values == {f"Bearer {SECRET}"} for values in found.values())
    assert other.sent("authorization")["tools/list"] == {None}
    assert SECRET not in json.dumps(gateway.backend.messages())


@pytest.mark.parametrize("host", ["GW.example", "x.example", "gw.example:8", "gw.example@x", "x"])
@pytest.mark.parametrize("api", PATHS)
async def test_an_address_of_another_host_names_no_server_of_ours(
    gateway: Gateway, shops: Shops, api: str, host: str
) -> None:
    url = "litellm_proxyx/mcp/shop" if host == "x" else f"https://{host}/mcp/shop"
    named = {"url" if api == "messages" else "server_url": url, TOKEN[api]: SECRET}
    await ask(gateway, api, entry(api, **named), sent={"host": "gw.example"})
    got = shops[0].requests
    assert bool(got) is (SECRET in str(got)) is (host == "GW.example")


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_headers_are_handed_on_as_in_litellm(
    gateway: Gateway, shops: Shops, api: str
) -> None:
    """Those for one server by their name, and others if its configuration names them."""
    shop, other = shops
    headers = {"X-Tenant": "t1", "x-mcp-shop-x-key": "k1", "x-mcp-other-x-key": "k2", "X-Not": "n"}
    response = await ask(gateway, api, entry(api, headers=headers), entry(api, "other"))
    assert response.status == 200, response.bodies
    for method in ("tools/list", "tools/call"):
        assert shop.sent("x-tenant")[method] == {"t1"}
        assert shop.sent("x-key")[method] == {"k1"}
        assert shop.sent("x-not")[method] == {None}
    assert other.sent("x-tenant")["tools/list"] == other.sent("x-key")["tools/list"] == {None}


async def test_an_error_does_not_show_the_address_of_the_server(
    gateway: Gateway, shops: Shops
) -> None:
    shop, _ = shops
    shop.broken = True
    response = await ask(gateway, "responses", entry("responses"))
    made = response.json["output"][1]
    assert (made["status"], made["error"]) == ("failed", "The MCP server could not run the tool.")


@pytest.mark.parametrize("api", PATHS)
async def test_headers_of_the_request_go_to_the_server_that_they_name(
    gateway: Gateway, shops: Shops, api: str
) -> None:
    shop, other = shops
    sent = {
        "x-mcp-shop-authorization": f"Basic {SECRET}",
        "x-mcp-shop-x-key": "k1",
        "x-mcp-servers": "other",
    }
    response = await ask(gateway, api, entry(api), entry(api, "other"), sent=sent)
    assert response.status == 200, response.bodies
    for method in ("initialize", "tools/list", "tools/call"):
        assert shop.sent("authorization")[method] == {f"Basic {SECRET}"}
        assert shop.sent("x-key")[method] == {"k1"}
    assert other.sent("authorization")["tools/list"] == other.sent("x-key")["tools/list"] == {None}


@pytest.mark.parametrize("api", PATHS)
async def test_the_header_without_a_server_is_for_those_of_the_entries(
    gateway: Gateway, shops: Shops, api: str
) -> None:
    """If their configuration says in which form they take tokens. An entry's own goes first."""
    shop, other = shops
    for server in global_mcp_server_manager.config_mcp_servers.values():
        server.auth_type = "bearer_token"
    entries = entry(api), entry(api, "other", **{TOKEN[api]: "own"})
    response = await ask(gateway, api, *entries, sent={"x-mcp-auth": f"Bearer {SECRET}"})
    assert response.status == 200, response.bodies
    for method in ("tools/list", "tools/call"):
        assert shop.sent("authorization")[method] == {f"Bearer {SECRET}"}
    assert other.sent("authorization")["tools/list"] == {"Bearer own"}


@pytest.mark.parametrize("api", PATHS)
async def test_headers_of_the_request_go_to_the_servers_that_are_configured_so(
    gateway: Gateway, shops: tuple[HttpShop, HttpShop], api: str
) -> None:
    """An entry's own goes first. The gateway's key goes to none."""
    shop, other = shops
    configured = {each.name: each for each in global_mcp_server_manager.get_registry().values()}
    configured["shop"].extra_headers = ["X-Tenant", "x-own", "Authorization", "X-API-Key"]
    configured["other"].extra_headers = ["x-other", "authorization"]
    sent = {"x-tenant": SECRET, "x-other": "o", "x-own": "sent", "x-not": "n", "x-api-key": MASTER}
    own = {} if api == "messages" else {"headers": {"X-Own": "own"}}
    response = await ask(gateway, api, entry(api, **own), entry(api, "other"), sent=sent)
    assert response.status == 200, response.bodies
    for method in ("initialize", "tools/list", "tools/call"):
        assert shop.sent("x-tenant")[method] == {SECRET}
        assert shop.sent("x-own")[method] == {own.get("headers", {}).get("X-Own", "sent")}
    assert other.sent("x-other")["tools/list"] == {"o"}
    got = [sent for each in shops for _, sent in each.requests]
    assert MASTER not in str(got)
    assert not any("x-not" in each for each in got)
    assert not any("x-tenant" in each for _, each in other.requests)


@pytest.mark.usefixtures("_filters")
@pytest.mark.parametrize("api", PATHS)
async def test_authorization_beside_litellms_header_is_for_the_servers_that_are_configured_so(
    gateway: Gateway,
    shops: Shops,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    api: str,
) -> None:
    """Neither hooks nor logs have it."""
    caplog.set_level(logging.DEBUG)
    shop, other = shops
    seen = Seen()
    monkeypatch.setattr(litellm, "callbacks", [seen])
    configured = {each.name: each for each in global_mcp_server_manager.get_registry().values()}
    configured["shop"].extra_headers = ["Authorization", "x-litellm-api-key"]
    sent = {"x-litellm-api-key": f"Bearer {MASTER}", "authorization": f"Bearer {SECRET}"}
    response = await ask(gateway, api, entry(api), entry(api, "other"), sent=sent, key=None)
    assert response.status == 200, response.bodies
    for method in ("initialize", "tools/list", "tools/call"):
        assert shop.sent("authorization")[method] == {f"Bearer {SECRET}"}
    assert other.sent("authorization")["tools/list"] == {None}
    assert MASTER not in str([shop.requests, other.requests])
    await until(lambda: seen.ended)
    assert SECRET not in "".join(seen.texts)
    assert SECRET not in caplog.text


@pytest.mark.parametrize("other", [MASTER, "sk-of-somebody-else"])
async def test_no_server_gets_another_key_of_the_gateway(
    gateway: Gateway, shops: Shops, other: str
) -> None:
    shop, _ = shops
    gateway.add_key("sk-of-somebody-else", key_of("sk-of-somebody-else", blocked=True))
    for server in global_mcp_server_manager.config_mcp_servers.values():
        server.extra_headers = ["authorization"]
    sent = {"x-litellm-api-key": MASTER, "authorization": f"Bearer {other}"}
    response = await ask(gateway, "responses", entry("responses"), sent=sent, key=None)
    assert response.status == 200, response.bodies
    assert shop.sent("authorization")["tools/call"] == {None}


@pytest.mark.usefixtures("gateway", "shops")
@pytest.mark.parametrize("empty", [b"", b"Bearer "])
async def test_an_empty_header_beside_a_key_does_not_release_it(empty: bytes) -> None:
    for server in global_mcp_server_manager.config_mcp_servers.values():
        server.extra_headers = ["authorization"]
    key = (b"authorization", f"Bearer {MASTER}".encode())
    for headers in ([(b"authorization", empty), key], [key, (b"authorization", empty)]):
        credentials = McpCredentials()
        credentials.take(headers)
        assert MASTER not in str(vars(credentials))
    credentials = McpCredentials()
    credentials.take([(b"x-litellm-api-key", MASTER.encode()), (b"authorization", b"Bearer own")])
    assert "own" in str(vars(credentials))


async def test_the_configuration_renames_the_header_without_a_server(
    gateway: Gateway, shops: tuple[HttpShop, HttpShop], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, _ = shops
    monkeypatch.setitem(proxy_server.general_settings, TOKEN_HEADER, "X-Shop-Token")
    for server in global_mcp_server_manager.config_mcp_servers.values():
        server.auth_type = "bearer_token"
    sent = {"x-shop-token": f"Bearer {SECRET}", "x-mcp-auth": "Bearer other"}
    response = await ask(gateway, "responses", entry("responses"), sent=sent)
    assert response.status == 200, response.bodies
    assert shop.sent("authorization")["tools/call"] == {f"Bearer {SECRET}"}


async def test_the_header_without_a_server_is_never_that_of_the_key(
    gateway: Gateway, shops: tuple[HttpShop, HttpShop], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, _ = shops
    monkeypatch.setitem(proxy_server.general_settings, TOKEN_HEADER, "Authorization")
    for server in global_mcp_server_manager.config_mcp_servers.values():
        server.auth_type = "bearer_token"
    body = body_of("responses", tools=[entry("responses")])
    response = await gateway.ask(body, path=PATHS["responses"])
    assert response.status == 200, response.bodies
    assert MASTER not in str(shop.requests)


async def test_an_entry_for_all_servers_gives_none_the_header(
    gateway: Gateway, shops: Shops
) -> None:
    shop, other = shops
    for server in global_mcp_server_manager.config_mcp_servers.values():
        server.auth_type = "bearer_token"
    own = entry("responses", server_url="litellm_proxy")
    headers = [(b"x-mcp-auth", SECRET.encode())]
    body = body_of("responses", tools=[own])
    response = await gateway.ask(body, path=PATHS["responses"], headers=headers)
    assert response.status == 200, response.bodies
    assert SECRET not in str([shop.requests, other.requests])


async def test_an_error_repeats_no_header(gateway: Gateway) -> None:
    sent = {"x-mcp-shop-x-key": f"{SECRET}é"}
    response = await ask(gateway, "responses", entry("responses"), sent=sent)
    assert response.status == 400, response.bodies
    assert response.json["error"]["param"] == "x-mcp-shop-x-key"
    assert SECRET.encode() not in b"".join(response.bodies)


@pytest.mark.usefixtures("_filters")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", PATHS)
async def test_nobody_else_sees_credentials(
    gateway: Gateway,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    api: str,
    stream: bool,
) -> None:
    caplog.set_level(logging.DEBUG)
    seen = Seen()
    monkeypatch.setattr(litellm, "callbacks", [seen])
    monkeypatch.setitem(proxy_server.general_settings, "forward_client_headers_to_llm_api", True)
    given: Json = {TOKEN[api]: SECRET}
    if api != "messages":
        given["headers"] = {"X-Tenant": SECRET, "x-mcp-shop-x-key": SECRET, "X-Other": SECRET}
    monkeypatch.setitem(proxy_server.general_settings, TOKEN_HEADER, "x-shop-token")
    names = ("x-mcp-shop-x-other", "x-mcp-auth", "x-shop-token", "x-tenant")
    sent = dict.fromkeys(names, SECRET)
    response = await ask(gateway, api, entry(api, **given), sent=sent, stream=stream)
    assert response.status == 200, response.bodies
    await until(lambda: seen.ended)
    await asyncio.sleep(0.05)
    assert len(seen.texts) > 2
    assert SECRET not in "".join(seen.texts)
    assert SECRET.encode() not in b"".join(response.bodies)
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"authorization": 3}, "authorization"),
        ({"authorization": f"{SECRET}\n"}, "authorization"),
        ({"authorization": SECRET, "server_url": "litellm_proxy"}, "authorization"),
        ({"headers": SECRET}, "headers"),
        ({"headers": {"a": 3}}, "headers"),
        ({"headers": {"a": f"{SECRET}\r\nb: c"}}, "headers"),
        ({"headers": {f"a: {SECRET}": "c"}}, "headers"),
    ],
)
async def test_errors_repeat_no_credentials(gateway: Gateway, changes: Json, param: str) -> None:
    response = await ask(gateway, "responses", entry("responses", **changes))
    assert response.status == 400, response.bodies
    assert response.json["error"]["param"] == f"tools[0].{param}"
    assert SECRET.encode() not in b"".join(response.bodies)


async def test_an_address_of_the_client_gets_nothing(gateway: Gateway, shops: Shops) -> None:
    shop, _ = shops
    own = entry("responses", authorization=SECRET, server_url=shop.url)
    response = await gateway.ask(body_of("responses", tools=[own]), path=PATHS["responses"])
    assert response.status == 200, response.bodies
    assert shop.requests == []


async def test_stored_responses_do_not_have_them(gateway: Gateway) -> None:
    own = entry("responses", authorization=SECRET, headers={"X-Tenant": SECRET})
    response = await ask(gateway, "responses", own, stream=True)
    path = f"{PATHS['responses']}/{response.events[0]['response']['id']}"
    kept = await gateway.ask(b"", path=path, method="GET")
    assert kept.json["output"][1]["output"] == "Found record 7."
    assert "authorization" not in kept.json["tools"][0]
    assert SECRET.encode() not in b"".join(kept.bodies)


async def test_a_fallback_that_litellm_serves_gets_the_request_as_it_was_sent(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(gateway, gateway.backend, monkeypatch, fallbacks=[{"tiny": ["hosted"]}])
    gateway.backend.scripts["hi"] = BROKEN
    own = entry("chat", authorization=SECRET, headers={"X-Tenant": SECRET})
    await gateway.ask(body_of("chat", tools=[own]))
    [passed] = gateway.host.passed
    assert json.loads(passed.body)["tools"] == [own]
