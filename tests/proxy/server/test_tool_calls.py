"""Calls that the gateway runs: which keys may use which tools, limits, and what is known of them
in metrics, spans and the log."""

import asyncio
import hashlib
import json
import logging

import pytest
from litellm.proxy import proxy_server
from litellm.proxy._types import LiteLLM_ObjectPermissionTable, UserAPIKeyAuth
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import REGISTRY

from tests.proxy.server import kit
from tests.support.litellm.mcp import FAIL, LOOKUP, ODD, ran
from tests.support.litellm.own_route import PATHS, body_of
from tests.support.servers.script import Script, call
from tests.support.servers.virtual_keys import key_of
from tests.support.waiting import until
from toolgate_core import tracing
from toolgate_proxy.chat.tool_calls import ENDINGS
from toolgate_proxy.features.mcp import litellm_servers as mcp
from toolgate_proxy.features.web.litellm_search import may_search
from toolgate_proxy.keys.key import new_key
from toolgate_proxy.limits.limiter import Limiter
from toolgate_proxy.litellm_host.routing.router import router_settings
from toolgate_proxy.server import logs
from toolgate_proxy.settings import Settings

URL = "litellm_proxy/mcp/shop"
SHOP = {"type": "mcp", "server_label": "m", "server_url": URL, "require_approval": "never"}
SECRET = 987_654


@pytest.fixture
def lines(calls, monkeypatch):
    """The lines of the log."""
    del calls
    written = []

    class Kept(logging.Handler):
        def emit(self, record):
            written.append(self.format(record))

    monkeypatch.setattr(logs.of_tools, "handlers", [Kept()])
    level = logs.of_tools.level
    # By its method, which forgets what earlier tests found disabled.
    logs.of_tools.setLevel(logging.INFO)
    logs.set_up(as_json=True)
    yield written
    logs.of_tools.setLevel(level)


@pytest.fixture
def spans():
    exporter = InMemorySpanExporter()
    tracing.start_with(SimpleSpanProcessor(exporter), "toolgate")
    yield exporter
    tracing.stop()


def counted():
    labels = {"kind": "mcp", "server": "shop"}
    return {
        each: REGISTRY.get_sample_value("toolgate_tool_calls_total", {**labels, "result": each})
        for each in ENDINGS
    }


def add_key(gateway, **terms):
    sent = new_key()
    key = key_of(sent, "team-key", **{"mcp_servers": ("shop",), **terms})
    gateway.add_key(sent, key)
    return sent, key


async def ask(gateway, *turns, **params):
    return await kit.ask(gateway, "responses", *turns, **{"tools": [SHOP], **params})


@pytest.mark.parametrize(("tool", "result"), [(LOOKUP, "ok"), (FAIL, "error")])
async def test_a_call_is_counted_traced_and_logged_without_contents(
    gateway, lines, spans, tool, result
):
    sent, key = add_key(gateway)
    arguments = {"id": SECRET}
    await ask(gateway, "Hello.", key=sent)  # the listing begins the series
    before = counted()
    assert None not in before.values()
    reply = await ask(gateway, call(tool, arguments), "Done.", key=sent)
    assert reply.text == "Done."
    after = counted()
    assert {each for each in ENDINGS if after[each] != before[each]} == {result}
    [text] = lines
    line = json.loads(text)
    assert str(SECRET) not in text
    assert (line["key"], line["model"]) == (key.alias, "tiny")
    assert (line["kind"], line["server"], line["tool"]) == ("mcp", "shop", tool)
    assert (line["result"], line["level"]) == (result, "info" if result == "ok" else "warning")
    assert line["seconds"] >= 0
    plain = json.dumps(arguments, sort_keys=True, separators=(",", ":"))
    assert line["arguments"] == f"sha256:{hashlib.sha256(plain.encode()).hexdigest()}"
    assert line["call_id"] == reply.response.context.call_id
    assert reply.response.context.meter.tool_calls == 1
    found = {span.name: span for span in spans.get_finished_spans()}
    span = found[f"execute_tool {tool}"]
    assert span.attributes is not None
    assert span.attributes["toolgate.tool_server"] == "shop"
    assert span.attributes.get("error.type") == (None if result == "ok" else "error")
    assert str(SECRET) not in span.to_json()


async def test_calls_over_the_limit_of_the_key_do_not_run(gateway, calls, lines):
    gateway.here.limiter = Limiter(Settings(redis_url=None))
    sent, key = add_key(gateway, tool_calls_per_day=2)
    turns = [call(LOOKUP, {"id": at}) for at in range(4)]
    reply = await ask(gateway, *turns, "Done.", key=sent)
    assert [each["id"] for each in ran(calls)] == [0, 1]
    assert [each.failed for each in reply.ran] == [False, False, True, True]
    assert "limit of 2 tool calls per day" in reply.ran[2].result
    assert [json.loads(line)["result"] for line in lines] == ["ok", "ok", "refused", "refused"]
    await reply.response.context.meter.settle()
    again = new_key()
    gateway.add_key(again, key)
    reply = await ask(gateway, call(LOOKUP, {"id": 9}), "Done.", key=again)
    assert [each.failed for each in reply.ran] == [True]
    assert len(ran(calls)) == 2


@pytest.mark.parametrize("most", [1, 2])
async def test_a_response_runs_no_more_calls_than_the_request_allows(gateway, calls, lines, most):
    several = "\n".join(call(LOOKUP, {"id": at}) for at in range(3))
    reply = await ask(gateway, several, "Done.", max_tool_calls=most)
    assert len(ran(calls)) == most
    assert [each.failed for each in reply.ran] == [False] * most + [True] * (3 - most)
    assert [json.loads(line)["result"] for line in lines[most:]] == ["refused"] * (3 - most)
    assert gateway.backend.callable_tools() == []
    assert reply.body["max_tool_calls"] == most


async def test_a_server_that_is_too_slow_is_a_timeout(gateway, lines, monkeypatch):
    monkeypatch.setattr(mcp, "CALL_SECONDS", 0.0)
    reply = await ask(gateway, call(LOOKUP, {"id": 1}), "Done.")
    assert [each.failed for each in reply.ran] == [True]
    assert json.loads(lines[0])["result"] == "timeout"


@pytest.mark.parametrize("leaves", [True, False], ids=["the client", "the time limit"])
async def test_a_call_ends_with_its_response(gateway, lines, monkeypatch, leaves):
    """Which a client leaves, or whose time limit it exceeds."""
    left = asyncio.Event()

    async def hang(_servers, _name, _arguments):
        left.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(mcp.LiteLLMServers, "call", hang)
    if not leaves:
        impatient = gateway.here.settings.model_copy(update={"request_timeout": 1.0})
        monkeypatch.setattr(gateway.here.deployments, "_settings", impatient)
    gateway.backend.turns = [Script((call(LOOKUP, {"id": 1}),)), Script(("Late.",))]
    body = body_of("responses", "go", tools=[SHOP])
    path, leave = PATHS["responses"], left if leaves else None
    response = await gateway.ask(body, path=path, leave_after=leave)
    assert left.is_set()
    await until(lambda: bool(lines))
    assert json.loads(lines[0])["result"] == ("cancelled" if leaves else "timeout")
    assert leaves or response.status == 504


LISTED = [
    ((), []),
    (("other",), []),
    (("shop",), [LOOKUP, FAIL, ODD]),
    (("other", "shop/lookup"), [LOOKUP]),
    (("shop/nothing",), []),
    (("shop", "shop/lookup"), [LOOKUP, FAIL, ODD]),
    (("no-mcp-servers",), []),
]


async def test_a_key_lists_and_calls_the_tools_that_it_may_use(gateway, calls):
    for servers, tools in LISTED:
        sent, _ = add_key(gateway, mcp_servers=servers)
        reply = await ask(gateway, "Hello.", key=sent)
        assert reply.listed == tools, servers
        assert bool(reply.parts[0].get("error")) is not bool(tools)
        assert set(gateway.backend.callable_tools()) == set(tools) - {ODD}
    sent, _ = add_key(gateway, mcp_servers=("shop/lookup",))
    reply = await ask(gateway, call(LOOKUP, {"id": 7}), "Done.", key=sent)
    assert [each.result for each in reply.ran] == ["lookup found record 7."]
    assert ran(calls) == [{"id": 7}]


SEARCH = {
    "responses": {"type": "web_search"},
    "messages": {"type": "web_search_20250305", "name": "web_search"},
}


@pytest.mark.parametrize("api", SEARCH)
async def test_a_key_searches_with_a_tool_that_it_may_use(gateway, engine, api):
    """`denied`: tools that no permission names."""
    params = {"search_provider": "searxng", "api_base": engine.url}
    router_settings().search_tools[:] = [
        {"search_tool_name": name, "litellm_params": params} for name in ("first", "second")
    ]
    for allowed, denied, used in (
        ((), False, True),
        (("second",), False, True),
        (("third",), False, False),
        ((), True, False),
        (("second",), True, True),
    ):
        proxy_server.general_settings["search_tool_deny_by_default"] = denied
        engine.queries.clear()
        sent, _ = add_key(gateway, search_tools=allowed)
        turn = call("web_search", {"query": "news"}) if used else "No."
        given = {"tools": [SEARCH[api]], "key": sent}
        reply = await kit.ask(gateway, api, turn, "Done.", **given)
        assert reply.text == ("Done." if used else "No.")
        assert engine.queries == (["news"] if used else [])
        assert ("x-toolgate-omitted-tools" in reply.own) is not used


@pytest.mark.parametrize("layer", ["object_permission", "team_object_permission"])
async def test_a_key_of_litellms_database_needs_its_own_permission_and_its_teams(layer):
    table = LiteLLM_ObjectPermissionTable(object_permission_id="p", search_tools=["first"])
    caller = UserAPIKeyAuth(api_key="hash", **{layer: table})
    assert await may_search("first", caller)
    assert not await may_search("second", caller)
