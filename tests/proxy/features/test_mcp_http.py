"""MCP servers over HTTP: credentials that clients send are for the server that the entry names, too
much that a server sends is an error that the model or the client sees, many parts are one text
before anything copies them, and each text and each tool reaches the model."""

import asyncio
import gc
import json
import logging
import time
from contextlib import contextmanager

import litellm
import pytest
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy import proxy_server

from tests.proxy.kit import beside
from tests.proxy.server import kit
from tests.proxy.server.conftest import configured
from tests.proxy.server.kit import APIS
from tests.support.effort import rotating, sampled
from tests.support.litellm.fallbacks import BROKEN, configure
from tests.support.litellm.mcp import LOOKUP, MANAGER
from tests.support.litellm.own_route import MASTER, PATHS, body_of
from tests.support.servers.mcp_http import running
from tests.support.servers.mcp_shop import TOOLS
from tests.support.servers.script import call
from tests.support.servers.virtual_keys import key_of
from tests.support.waiting import until
from toolgate_proxy.features.mcp import litellm_servers as mcp
from toolgate_proxy.features.mcp.litellm_credentials import McpCredentials
from toolgate_proxy.server import logs

SECRET = "s3cret-of-the-client"
BEARER = f"Bearer {SECRET}"
TOKEN_HEADER = "mcp_client_side_auth_header_name"
TOKEN = {"chat": "authorization", "responses": "authorization", "messages": "authorization_token"}
OF_AUTHORIZATION = "incoming_bearer_token"
"""What LiteLLM gives hooks before a tool call, which may check or exchange the token."""
ALL = ("initialize", "tools/list", "tools/call")
ANY_API = rotating("api", PATHS, one_in=3)
ROWS = beside(__file__)
pytestmark = pytest.mark.usefixtures("shops")


AT_FIRST = {}
"""The configuration of each server that tests change."""


@pytest.fixture(scope="module")
def shops_of_module():
    with running() as shop, running() as other:
        named = {"shop": shop.url, "other": other.url}
        more = {"transport": "http", "extra_headers": ["x-tenant"]}
        with configured(**{name: {"url": url, **more} for name, url in named.items()}):
            yield shop, other


@pytest.fixture
def shops(shops_of_module):
    """The servers `shop` and `other`."""
    for server in MANAGER.get_registry().values():
        first = AT_FIRST.setdefault(server.name, (server.extra_headers, server.auth_type))
        server.extra_headers, server.auth_type = first
    for shop in shops_of_module:
        for noted in (shop.requests, shop.padding, shop.results, shop.called):
            noted.clear()
        shop.broken = False
    return shops_of_module


def change(**changes):
    """Change the configuration of all servers."""
    for server in MANAGER.get_registry().values():
        for name, value in changes.items():
            setattr(server, name, value)


def takes(server, *headers):
    """Headers of requests that its configuration names."""
    by_name = {each.name: each for each in MANAGER.get_registry().values()}
    by_name[server].extra_headers = [*headers]


def got(server, header):
    """The values with which all its messages came."""
    return {value for values in server.sent(header).values() for value in values}


@pytest.fixture
def _filters():
    """Those of the log of a gateway."""
    loggers = [logging.getLogger(name) for name in (*logs.LITELLM, "uvicorn.error")]
    held = [(logger, [*logger.filters]) for logger in loggers]
    logs.add_filters()
    yield
    for logger, filters in held:
        logger.filters[:] = filters


class Seen(CustomLogger):
    """Notes all that callbacks get."""

    def __init__(self):
        super().__init__()
        self.texts = []
        self.ended = 0

    async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
        self.texts.append(repr({**data, OF_AUTHORIZATION: None}))
        if "secret_fields" in data:  # whose headers do not show themselves; a tool call has none
            self.texts.append(repr({**data["secret_fields"]["raw_headers"]}))
        return data

    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        self.texts += [repr(kwargs), repr(response_obj)]
        self.ended += kwargs["call_type"] != "call_mcp_tool"


def entry(api, server="shop", **more):
    url = f"litellm_proxy/mcp/{server}"
    if api == "messages":
        return {"type": "url", "name": server, "url": url, **more}
    shown = {"type": "mcp", "server_label": server, "server_url": url}
    return {**shown, "require_approval": "never", **more}


async def ask(gateway, api, *entries, sent=None, **params):
    """`sent`: headers of the request."""
    place = "mcp_servers" if api == "messages" else "tools"
    turns = call(LOOKUP, {"id": 7}), "It is record 7."
    given = {place: [*entries], "headers": sent, **params}
    return await kit.ask(gateway, api, *turns, **given)


async def check(gateway, api, *entries, **given):
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


@ANY_API
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


@ANY_API
async def test_headers_of_the_request_go_to_the_server_that_they_name(gateway, shops, api):
    shop, other = shops
    sent = {"x-mcp-shop-authorization": f"Basic {SECRET}", "x-mcp-shop-x-key": "k1",
            "x-mcp-servers": "other"}  # fmt: skip
    await check(gateway, api, entry(api), entry(api, "other"), sent=sent)
    for method in ALL:
        assert shop.sent("authorization")[method] == {f"Basic {SECRET}"}
        assert shop.sent("x-key")[method] == {"k1"}
    assert got(other, "authorization") == got(other, "x-key") == {None}


@ANY_API
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


@ANY_API
async def test_the_header_without_a_server_is_for_those_of_the_entries(gateway, shops, api):
    """If their configuration says in which form they take tokens. An entry's own goes first."""
    shop, other = shops
    change(auth_type="bearer_token")
    entries = entry(api), entry(api, "other", **{TOKEN[api]: "own"})
    await check(gateway, api, *entries, sent={"x-mcp-auth": BEARER})
    for method in ("tools/list", "tools/call"):
        assert shop.sent("authorization")[method] == {BEARER}
    assert other.sent("authorization")["tools/list"] == {"Bearer own"}


async def test_the_configuration_renames_the_header_without_a_server(gateway, shops, monkeypatch):
    """It is never that of the key, and an entry for all servers gives it to none."""
    shop, other = shops
    change(auth_type="bearer_token")
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
@ANY_API
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
    change(extra_headers=["authorization"])
    sent = {"x-litellm-api-key": MASTER, "authorization": f"Bearer {other}"}
    await check(gateway, "responses", entry("responses"), sent=sent, key=None)
    assert shops[0].sent("authorization")["tools/call"] == {None}


@pytest.mark.usefixtures("gateway")
@pytest.mark.parametrize("empty", [b"", b"Bearer "])
async def test_an_empty_header_beside_a_key_does_not_release_it(empty):
    change(extra_headers=["authorization"])
    key = (b"authorization", f"Bearer {MASTER}".encode())
    for headers in ([(b"authorization", empty), key], [key, (b"authorization", empty)]):
        (credentials := McpCredentials()).read_headers(headers)
        assert MASTER not in str(vars(credentials))
    credentials = McpCredentials()
    beside = (b"authorization", b"Bearer sk-1")
    credentials.read_headers([(b"x-litellm-api-key", MASTER.encode()), beside])
    assert "sk-1" in str(vars(credentials)), "the key of another service"


@pytest.mark.usefixtures("_filters")
@sampled("api, stream", PATHS, [False, True], one_in=2)
async def test_nobody_else_sees_credentials(gateway, monkeypatch, caplog, api, stream):
    """Nor does a stored response have them."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(litellm, "callbacks", [seen := Seen()])
    monkeypatch.setitem(proxy_server.general_settings, "forward_client_headers_to_llm_api", True)
    given = {TOKEN[api]: SECRET}
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


async def test_errors_repeat_no_credentials(gateway, shops):
    """Nor the address of the server."""
    for changes, param in ROWS["wrong"]:
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


# --- what MCP servers send ------------------------------------------------------------------------

URL = "litellm_proxy/mcp/shop"
ENTRY = {"type": "mcp", "server_label": "s", "server_url": URL, "require_approval": "never"}
SAID = "It is record 7."
BOUND, MORE = 100_000, 200_000
VALUES, MOST = 1_000, 9
LONGEST_TURN = 0.25
"""Seconds of processor time."""


@pytest.fixture
async def shop(shops, monkeypatch):
    for name, bound in (("MAX_BYTES", BOUND), ("MAX_VALUES", VALUES), ("MAX_TOOLS", MOST)):
        monkeypatch.setattr(mcp, name, bound)
    return shops[0]


async def call_of(gateway, name=LOOKUP, **entry):
    tools = [{**ENTRY, **entry}]
    return await kit.ask(gateway, "responses", call(name, {"id": 7}), SAID, tools=tools)


def listed(*names, **more):
    return {"tools": [{**TOOLS[0], "name": name, **more} for name in names]}


def parts(number):
    return {"content": [{"type": "text", "text": f"part {at}"} for at in range(number)]}


@pytest.mark.parametrize(
    ("padding", "result", "bound"),
    [(MORE, parts(1), f"{BOUND:,} bytes"), (0, parts(VALUES), f"{VALUES:,} JSON values")],
)
async def test_a_result_that_is_too_large_is_an_error_that_the_model_sees(
    gateway, shop, padding, result, bound
):
    shop.padding["tools/call"], shop.results["tools/call"] = padding, result
    reply = await call_of(gateway)
    [made] = reply.ran
    assert (made.failed, reply.text) == (True, SAID)
    assert f"more than {bound}" in made.result
    assert f"more than {bound}" in gateway.backend.messages()[-1]["content"]


@pytest.mark.parametrize(
    ("changes", "bound"),
    [
        ({"padding": {"tools/list": MORE}}, "bytes"),
        ({"results": {"tools/list": listed("x", description=["[]"] * VALUES)}}, "JSON values"),
        ({"results": {"tools/list": listed(*map(str, range(MOST + 1)))}}, "tools"),
    ],
)
async def test_a_list_that_is_too_large_is_an_error_of_the_list(gateway, shop, changes, bound):
    for name, values in changes.items():
        getattr(shop, name).update(values)
    reply = await kit.ask(gateway, "responses", "No record.", tools=[ENTRY])
    item = reply.parts[0]
    assert (item["type"], item["tools"]) == ("mcp_list_tools", [])
    assert "more than " in item["error"]
    assert item["error"].endswith(f"{bound}.")


class Hook(CustomLogger):
    """Notes the parts of results that it gets."""

    def __init__(self):
        self.parts = []

    async def async_post_mcp_tool_call_hook(self, response_obj, **_):
        self.parts.append(len(response_obj.mcp_tool_call_response))


@contextmanager
def turns():
    """Provide the processor times of the event loop between two turns of a task."""
    found = []
    gc.freeze()  # the objects of earlier tests: a collection would take longer than a turn may

    async def note():
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            found.append(time.thread_time() - began)

    task = asyncio.create_task(note())
    try:
        yield found
    finally:
        task.cancel()


@pytest.fixture
def usual_bounds(shop, monkeypatch):
    del shop
    for name, bound in (("MAX_VALUES", 70_000), ("MAX_BYTES", 16_000_000), ("MAX_TOOLS", 800)):
        monkeypatch.setattr(mcp, name, bound)


@pytest.mark.usefixtures("usual_bounds")
async def test_many_parts_are_one_text_before_they_are_copied(gateway, shop, monkeypatch):
    monkeypatch.setattr(litellm, "success_callback", [hook := Hook()])
    shop.results["tools/call"] = parts(20_000)
    await call_of(gateway)  # the first one loads what is loaded lazily
    with turns() as found:
        [made] = (await call_of(gateway)).ran
    assert hook.parts == [1, 1]
    assert made.result.startswith("part 0\npart 1\npart 2\n")
    assert gateway.backend.messages()[-1]["content"] == made.result
    assert max(found) < LONGEST_TURN


@pytest.fixture
def one_server(monkeypatch):
    """For each tool, LiteLLM compares its name with those of all servers."""
    servers = MANAGER.config_mcp_servers
    kept = {name: each for name, each in servers.items() if each.name == "shop"}
    monkeypatch.setattr(MANAGER, "config_mcp_servers", kept)


@pytest.mark.usefixtures("usual_bounds", "one_server")
async def test_a_list_at_the_bound_does_not_hold_up_others(gateway, shop):
    schema = {"type": "object", "properties": {str(at): {"type": "string"} for at in range(10)}}
    many = listed("lookup", *map(str, range(799)), inputSchema=schema)
    await call_of(gateway)
    shop.results["tools/list"] = many
    with turns() as found:
        reply = await call_of(gateway)
    assert reply.status == 400, "the backend of the tests enforces fewer tools"
    assert max(found) < LONGEST_TURN


async def test_each_text_of_a_result_reaches_the_model(gateway, shop):
    long = "a" * (BOUND // 2)
    for result, shown in [*ROWS["results"], ({"content": [{"type": "text", "text": long}]}, long)]:
        shop.results["tools/call"] = result
        [made] = (await call_of(gateway)).ran
        assert (made.result, made.failed) == (shown, False)
        assert gateway.backend.messages()[-1]["content"] == shown


async def test_a_tool_whose_name_the_model_can_not_use_gets_another_one(gateway, shop):
    shop.results["tools/list"] = listed("get/it", "get_it", "größe", "x" * 200)
    expected = ["shop-get_it_", "shop-get_it", "shop-gr__e", f"shop-{'x' * 200}"[:100]]
    for allowed in (None, ["get/it"], ["shop-get/it"], ["shop-get_it_"]):
        reply = await call_of(gateway, "shop-get_it_", allowed_tools=allowed)
        assert reply.listed == (expected[:1] if allowed else expected)
        [made] = reply.ran
        assert (made.name, made.result) == ("shop-get_it_", "Found record 7.")
    assert shop.called == ["get/it"] * 4
