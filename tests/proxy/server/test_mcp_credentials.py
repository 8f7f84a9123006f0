"""Credentials that clients send for MCP servers: only the server that the entry names gets them."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import litellm
import pytest
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy import proxy_server
from litellm.proxy._experimental.mcp_server.mcp_server_manager import global_mcp_server_manager

from tests.proxy.server import kit
from tests.proxy.server.kit import APIS, Json, Reply
from tests.support.effort import sampled
from tests.support.litellm.fallbacks import BROKEN, configure
from tests.support.litellm.mcp import LOOKUP, serving
from tests.support.litellm.own_route import MASTER, PATHS, Gateway, body_of
from tests.support.servers.mcp_http import HttpShop, running
from tests.support.servers.script import call
from tests.support.servers.virtual_keys import key_of
from tests.support.waiting import until
from toolgate_proxy.litellm_host.mcp_credentials import McpCredentials
from toolgate_proxy.server.logs import log_filters

SECRET = "s3cret-of-the-client"
BEARER = f"Bearer {SECRET}"
TOKEN_HEADER = "mcp_client_side_auth_header_name"
TOKEN = {"chat": "authorization", "responses": "authorization", "messages": "authorization_token"}
OF_AUTHORIZATION = "incoming_bearer_token"
"""What LiteLLM gives hooks before a tool call, which may check or exchange the token."""
ALL = ("initialize", "tools/list", "tools/call")
pytestmark = pytest.mark.usefixtures("shops")


@pytest.fixture
async def shops():
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


def configured(**changes: Any) -> None:
    """Change the configuration of all servers."""
    for server in global_mcp_server_manager.get_registry().values():
        for name, value in changes.items():
            setattr(server, name, value)


def takes(server: str, *headers: str) -> None:
    """Headers of requests that its configuration names."""
    by_name = {each.name: each for each in global_mcp_server_manager.get_registry().values()}
    by_name[server].extra_headers = [*headers]


def got(server: HttpShop, header: str) -> set[str | None]:
    """The values with which all its messages came."""
    return {value for values in server.sent(header).values() for value in values}


@pytest.fixture
def _filters():
    """Those of the log of a gateway."""
    loggers = [logging.getLogger(name) for name in (*log_filters.LITELLM, "uvicorn.error")]
    held = [(logger, [*logger.filters]) for logger in loggers]
    log_filters.set_up()
    yield
    for logger, filters in held:
        logger.filters[:] = filters


class Seen(CustomLogger):
    """Notes all that callbacks get."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.ended = 0

    async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
        self.texts.append(repr({**data, OF_AUTHORIZATION: None}))
        if "secret_fields" in data:  # whose headers do not show themselves; a tool call has none
            self.texts.append(repr({**data["secret_fields"]["raw_headers"]}))
        return data

    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        self.texts += [repr(kwargs), repr(response_obj)]
        self.ended += kwargs["call_type"] != "call_mcp_tool"


def entry(api: str, server: str = "shop", **more: Any) -> Json:
    url = f"litellm_proxy/mcp/{server}"
    if api == "messages":
        return {"type": "url", "name": server, "url": url, **more}
    shown = {"type": "mcp", "server_label": server, "server_url": url}
    return {**shown, "require_approval": "never", **more}


async def ask(
    gateway: Gateway, api: str, *entries: Json, sent: dict[str, str] | None = None, **params: Any
) -> Reply:
    """`sent`: headers of the request."""
    place = "mcp_servers" if api == "messages" else "tools"
    turns = call(LOOKUP, {"id": 7}), "It is record 7."
    given = {place: [*entries], "headers": sent, **params}
    return await kit.ask(gateway, api, *turns, **given)


async def check(gateway: Gateway, api: str, *entries: Json, **given: Any) -> None:
    """The call runs."""
    reply = await ask(gateway, api, *entries, **given)
    assert reply.text == "It is record 7."
    assert [each.result for each in reply.ran] == ["Found record 7."]
    assert SECRET not in json.dumps(gateway.backend.messages())


@APIS
async def test_the_server_of_the_entry_gets_the_token(gateway, shops, api):
    shop, other = shops
    await check(gateway, api, entry(api, **{TOKEN[api]: SECRET}), entry(api, "other"))
    assert {*ALL} <= {*shop.sent("x")}
    assert got(shop, "authorization") == {BEARER}
    assert got(other, "authorization") == {None}


@APIS
async def test_an_address_of_another_host_names_no_server_of_ours(gateway, shops, api):
    for host in ("x.example", "gw.example:8", "gw.example@x", "x", "GW.example"):
        url = "litellm_proxyx/mcp/shop" if host == "x" else f"https://{host}/mcp/shop"
        named = {"url" if api == "messages" else "server_url": url, TOKEN[api]: SECRET}
        await ask(gateway, api, entry(api, **named), sent={"host": "gw.example"})
        asked = shops[0].requests
        assert bool(asked) is (SECRET in str(asked)) is (host == "GW.example")


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_headers_of_an_entry_are_handed_on_as_in_litellm(gateway, shops, api):
    """Those for one server by their name, and others if its configuration names them."""
    shop, other = shops
    headers = {"X-Tenant": "t1", "x-mcp-shop-x-key": "k1", "x-mcp-other-x-key": "k2", "X-Not": "n"}
    await check(gateway, api, entry(api, headers=headers), entry(api, "other"))
    for method in ("tools/list", "tools/call"):
        assert shop.sent("x-tenant")[method] == {"t1"}
        assert shop.sent("x-key")[method] == {"k1"}
        assert shop.sent("x-not")[method] == {None}
    assert got(other, "x-tenant") == got(other, "x-key") == {None}


@APIS
async def test_headers_of_the_request_go_to_the_server_that_they_name(gateway, shops, api):
    shop, other = shops
    sent = {"x-mcp-shop-authorization": f"Basic {SECRET}", "x-mcp-shop-x-key": "k1",
            "x-mcp-servers": "other"}  # fmt: skip
    await check(gateway, api, entry(api), entry(api, "other"), sent=sent)
    for method in ALL:
        assert shop.sent("authorization")[method] == {f"Basic {SECRET}"}
        assert shop.sent("x-key")[method] == {"k1"}
    assert got(other, "authorization") == got(other, "x-key") == {None}


@APIS
async def test_headers_of_the_request_go_to_the_servers_that_are_configured_so(gateway, shops, api):
    """An entry's own goes first. The gateway's key goes to none."""
    shop, other = shops
    takes("shop", "X-Tenant", "x-own", "Authorization", "X-API-Key")
    takes("other", "x-other", "authorization")
    sent = {"x-tenant": SECRET, "x-other": "o", "x-own": "sent", "x-not": "n", "x-api-key": MASTER}
    own = {} if api == "messages" else {"headers": {"X-Own": "own"}}
    await check(gateway, api, entry(api, **own), entry(api, "other"), sent=sent)
    for method in ALL:
        assert shop.sent("x-tenant")[method] == {SECRET}
        assert shop.sent("x-own")[method] == {"own" if own else "sent"}
    assert other.sent("x-other")["tools/list"] == {"o"}
    assert MASTER not in str([shop.requests, other.requests])
    assert got(shop, "x-not") == got(other, "x-not") == got(other, "x-tenant") == {None}


@APIS
async def test_the_header_without_a_server_is_for_those_of_the_entries(gateway, shops, api):
    """If their configuration says in which form they take tokens. An entry's own goes first."""
    shop, other = shops
    configured(auth_type="bearer_token")
    entries = entry(api), entry(api, "other", **{TOKEN[api]: "own"})
    await check(gateway, api, *entries, sent={"x-mcp-auth": BEARER})
    for method in ("tools/list", "tools/call"):
        assert shop.sent("authorization")[method] == {BEARER}
    assert other.sent("authorization")["tools/list"] == {"Bearer own"}


async def test_the_configuration_renames_the_header_without_a_server(gateway, shops, monkeypatch):
    """It is never that of the key, and an entry for all servers gives it to none."""
    shop, other = shops
    configured(auth_type="bearer_token")
    everywhere = entry("responses", server_url="litellm_proxy")
    await ask(gateway, "responses", everywhere, sent={"x-mcp-auth": SECRET})
    monkeypatch.setitem(proxy_server.general_settings, TOKEN_HEADER, "Authorization")
    reply = await kit.ask(gateway, "responses", said="hi", tools=[entry("responses")])
    assert reply.text == "Hello there"
    assert MASTER not in str(shop.requests)
    assert SECRET not in str([shop.requests, other.requests])
    monkeypatch.setitem(proxy_server.general_settings, TOKEN_HEADER, "X-Shop-Token")
    sent = {"x-shop-token": BEARER, "x-mcp-auth": "Bearer other"}
    shop.requests.clear()
    await check(gateway, "responses", entry("responses"), sent=sent)
    assert shop.sent("authorization")["tools/call"] == {BEARER}


@pytest.mark.usefixtures("_filters")
@APIS
async def test_authorization_beside_litellms_header_is_for_the_servers_that_are_configured_so(
    gateway, shops, monkeypatch, caplog, api
):
    """Neither hooks nor logs have it."""
    caplog.set_level(logging.DEBUG)
    shop, other = shops
    monkeypatch.setattr(litellm, "callbacks", [seen := Seen()])
    takes("shop", "Authorization", "x-litellm-api-key")
    sent = {"x-litellm-api-key": f"Bearer {MASTER}", "authorization": BEARER}
    await check(gateway, api, entry(api), entry(api, "other"), sent=sent, key=None)
    for method in ALL:
        assert shop.sent("authorization")[method] == {BEARER}
    assert got(other, "authorization") == {None}
    assert MASTER not in str([shop.requests, other.requests])
    await until(lambda: seen.ended)
    assert SECRET not in "".join(seen.texts)
    assert SECRET not in caplog.text


@pytest.mark.parametrize("other", [MASTER, "sk-of-somebody-else"])
async def test_no_server_gets_another_key_of_the_gateway(gateway, shops, other):
    gateway.add_key("sk-of-somebody-else", key_of("sk-of-somebody-else", blocked=True))
    configured(extra_headers=["authorization"])
    sent = {"x-litellm-api-key": MASTER, "authorization": f"Bearer {other}"}
    await check(gateway, "responses", entry("responses"), sent=sent, key=None)
    assert shops[0].sent("authorization")["tools/call"] == {None}


@pytest.mark.usefixtures("gateway")
@pytest.mark.parametrize("empty", [b"", b"Bearer "])
async def test_an_empty_header_beside_a_key_does_not_release_it(empty):
    configured(extra_headers=["authorization"])
    key = (b"authorization", f"Bearer {MASTER}".encode())
    for headers in ([(b"authorization", empty), key], [key, (b"authorization", empty)]):
        credentials = McpCredentials()
        credentials.take(headers)
        assert MASTER not in str(vars(credentials))
    credentials = McpCredentials()
    credentials.take([(b"x-litellm-api-key", MASTER.encode()), (b"authorization", b"Bearer own")])
    assert "own" in str(vars(credentials))


@pytest.mark.usefixtures("_filters")
@sampled("api, stream", PATHS, [False, True], one_in=2)
async def test_nobody_else_sees_credentials(gateway, monkeypatch, caplog, api, stream):
    """Nor does a stored response have them."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(litellm, "callbacks", [seen := Seen()])
    monkeypatch.setitem(proxy_server.general_settings, "forward_client_headers_to_llm_api", True)
    given: Json = {TOKEN[api]: SECRET}
    if api != "messages":
        given["headers"] = {"X-Tenant": SECRET, "x-mcp-shop-x-key": SECRET, "X-Other": SECRET}
    monkeypatch.setitem(proxy_server.general_settings, TOKEN_HEADER, "x-shop-token")
    names = ("x-mcp-shop-x-other", "x-mcp-auth", "x-shop-token", "x-tenant")
    sent = dict.fromkeys(names, SECRET)
    reply = await ask(gateway, api, entry(api, **given), sent=sent, stream=stream)
    assert [each.result for each in reply.ran] == ["Found record 7."]
    await until(lambda: seen.ended)
    await asyncio.sleep(0.05)
    assert len(seen.texts) > 2
    assert SECRET not in "".join(seen.texts)
    assert SECRET.encode() not in b"".join(reply.response.bodies)
    assert SECRET not in caplog.text
    if api == "responses":
        path = f"{PATHS[api]}/{reply.body['id']}"
        kept = await gateway.ask(b"", path=path, method="GET")
        assert kept.json["output"][1]["output"] == "Found record 7."
        assert "authorization" not in kept.json["tools"][0]
        assert SECRET.encode() not in b"".join(kept.bodies)


WRONG = [
    ({"authorization": 3}, "authorization"),
    ({"authorization": f"{SECRET}\n"}, "authorization"),
    ({"authorization": SECRET, "server_url": "litellm_proxy"}, "authorization"),
    ({"headers": SECRET}, "headers"),
    ({"headers": {"a": 3}}, "headers"),
    ({"headers": {"a": f"{SECRET}\r\nb: c"}}, "headers"),
    ({"headers": {f"a: {SECRET}": "c"}}, "headers"),
]


async def test_errors_repeat_no_credentials(gateway, shops):
    """Nor the address of the server."""
    for changes, param in WRONG:
        refused = await ask(gateway, "responses", entry("responses", **changes))
        assert refused.refusal == (400, f"tools[0].{param}")
        assert SECRET.encode() not in b"".join(refused.response.bodies)
    name = "x-mcp-shop-x-key"
    refused = await ask(gateway, "responses", entry("responses"), sent={name: f"{SECRET}é"})
    assert refused.refusal == (400, name)
    assert SECRET.encode() not in b"".join(refused.response.bodies)
    shops[0].broken = True
    [made] = (await ask(gateway, "responses", entry("responses"))).ran
    assert (made.failed, made.result) == (True, "The MCP server could not run the tool.")


async def test_an_address_of_the_client_gets_nothing(gateway, shops):
    shop, _ = shops
    own = entry("responses", authorization=SECRET, server_url=shop.url)
    reply = await kit.ask(gateway, "responses", "Hello.", tools=[own])
    assert reply.text == "Hello."
    assert shop.requests == []


async def test_a_fallback_that_litellm_serves_gets_the_request_as_it_was_sent(gateway, monkeypatch):
    configure(gateway, gateway.backend, monkeypatch, fallbacks=[{"tiny": ["hosted"]}])
    gateway.backend.scripts["hi"] = BROKEN
    own = entry("chat", authorization=SECRET, headers={"X-Tenant": SECRET})
    await gateway.ask(body_of("chat", tools=[own]))
    [passed] = gateway.host.passed
    assert json.loads(passed.body)["tools"] == [own]
