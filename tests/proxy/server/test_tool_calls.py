"""What is known of a call that the gateway ran: its limit, metrics, span, and line in the log."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import REGISTRY

from tests.support.litellm.mcp import FAIL, LOOKUP, ran
from tests.support.litellm.own_route import PATHS, Gateway, Response, body_of
from tests.support.servers.script import Script, call
from tests.support.servers.virtual_keys import key_of
from tests.support.waiting import until
from toolgate_core import tracing
from toolgate_proxy.chat.tool_calls import ENDINGS
from toolgate_proxy.keys.key import Key, new_key
from toolgate_proxy.limits.limiter import Limiter
from toolgate_proxy.litellm_host import mcp
from toolgate_proxy.server.logs import tool_log
from toolgate_proxy.settings import Settings

SHOP = {
    "type": "mcp",
    "server_label": "mine",
    "server_url": "litellm_proxy/mcp/shop",
    "require_approval": "never",
}
BODY = body_of("responses", "go", tools=[SHOP])
SECRET = 987_654
pytestmark = pytest.mark.usefixtures("calls")


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The lines of the log."""
    written: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            written.append(self.format(record))

    monkeypatch.setattr(tool_log.logger, "handlers", [Kept()])
    level = tool_log.logger.level
    # By its method, which forgets what earlier tests found disabled.
    tool_log.logger.setLevel(logging.INFO)
    tool_log.set_up(as_json=True)
    yield written
    tool_log.logger.setLevel(level)


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    tracing.start_with(SimpleSpanProcessor(exporter), "toolgate")
    yield exporter
    tracing.stop()


def counted(server: str = "shop", kind: str = "mcp") -> dict[str, float | None]:
    labels = {"kind": kind, "server": server}
    return {
        each: REGISTRY.get_sample_value("toolgate_tool_calls_total", {**labels, "result": each})
        for each in ENDINGS
    }


async def ask(gateway: Gateway, *turns: str, **terms: Any) -> tuple[Response, Key]:
    gateway.backend.turns = [Script((text,)) for text in turns]
    sent = new_key()
    key = key_of(sent, "team-key", mcp_servers=("shop",), **terms)
    gateway.add_key(sent, key)
    return await gateway.ask(BODY, path=PATHS["responses"], key=sent), key


@pytest.mark.parametrize(("tool", "result"), [(LOOKUP, "ok"), (FAIL, "error")])
async def test_a_call_is_counted_traced_and_logged_without_contents(
    gateway: Gateway,
    lines: list[str],
    spans: InMemorySpanExporter,
    tool: str,
    result: str,
) -> None:
    arguments = {"id": SECRET}
    await ask(gateway, "Hello.")  # the listing begins the series
    before = counted()
    assert None not in before.values()
    response, key = await ask(gateway, call(tool, arguments), "Done.")
    assert response.status == 200, response.bodies
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
    assert line["call_id"] == response.context.call_id
    assert response.context.tool_calls == 1
    found = {span.name: span for span in spans.get_finished_spans()}
    span = found[f"execute_tool {tool}"]
    assert span.attributes is not None
    assert span.attributes["toolgate.tool_server"] == "shop"
    assert span.attributes.get("error.type") == (None if result == "ok" else "error")
    assert str(SECRET) not in span.to_json()


async def test_a_server_that_is_too_slow_is_a_timeout(
    gateway: Gateway, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp, "CALL_SECONDS", 0.0)
    response, _ = await ask(gateway, call(LOOKUP, {"id": 1}), "Done.")
    assert response.json["output"][1]["status"] == "failed"
    assert json.loads(lines[0])["result"] == "timeout"


async def test_calls_over_the_limit_of_the_key_do_not_run(
    gateway: Gateway, calls: Path, lines: list[str]
) -> None:
    gateway.here.limiter = Limiter(Settings(redis_url=None))
    turns = [call(LOOKUP, {"id": at}) for at in range(4)]
    response, key = await ask(gateway, *turns, "Done.", tool_calls_per_day=2)
    assert response.status == 200, response.bodies
    assert [each["id"] for each in ran(calls)] == [0, 1]
    made = [item for item in response.json["output"] if item["type"] == "mcp_call"]
    assert [item["status"] for item in made] == ["completed", "completed", "failed", "failed"]
    assert "limit of 2 tool calls per day" in made[2]["error"]
    assert [json.loads(line)["result"] for line in lines] == ["ok", "ok", "refused", "refused"]
    await response.context.settle()
    again, _ = await _with(gateway, key, call(LOOKUP, {"id": 9}), "Done.")
    assert again.json["output"][1]["status"] == "failed"
    assert len(ran(calls)) == 2


async def _with(gateway: Gateway, key: Key, *turns: str) -> tuple[Response, Key]:
    """Ask with a key that was used before."""
    gateway.backend.turns = [Script((text,)) for text in turns]
    sent = new_key()
    gateway.add_key(sent, key)
    return await gateway.ask(BODY, path=PATHS["responses"], key=sent), key


async def test_a_call_of_a_client_that_leaves_is_logged(
    gateway: Gateway, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    began, left = asyncio.Event(), asyncio.Event()

    async def hang(_servers: object, _name: str, _arguments: str) -> None:
        began.set()
        left.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(mcp.LiteLLMServers, "call", hang)
    gateway.backend.turns = [Script((call(LOOKUP, {"id": 1}),))]
    await gateway.ask(BODY, path=PATHS["responses"], leave_after=left)
    assert began.is_set()
    await until(lambda: bool(lines))
    assert json.loads(lines[0])["result"] == "cancelled"


@pytest.mark.parametrize("most", [1, 2])
async def test_a_response_runs_no_more_calls_than_the_request_allows(
    gateway: Gateway, calls: Path, lines: list[str], most: int
) -> None:
    several = "\n".join(call(LOOKUP, {"id": at}) for at in range(3))
    gateway.backend.turns = [Script((several,)), Script(("Done.",))]
    body = {**BODY, "max_tool_calls": most}
    response = await gateway.ask(body, path=PATHS["responses"])
    assert response.status == 200, response.bodies
    assert len(ran(calls)) == most
    made = [item for item in response.json["output"] if item["type"] == "mcp_call"]
    assert [item["status"] for item in made] == ["completed"] * most + ["failed"] * (3 - most)
    assert [json.loads(line)["result"] for line in lines[most:]] == ["refused"] * (3 - most)
    assert gateway.backend.callable_tools() == []
    assert response.json["max_tool_calls"] == most


async def test_a_call_ends_with_the_time_limit_of_the_response(
    gateway: Gateway, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(_servers: object, _name: str, _arguments: str) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(mcp.LiteLLMServers, "call", hang)
    impatient = gateway.here.settings.model_copy(update={"request_timeout": 1.0})
    monkeypatch.setattr(gateway.here.deployments, "_settings", impatient)
    gateway.backend.turns = [Script((call(LOOKUP, {"id": 1}),)), Script(("Late.",))]
    response = await gateway.ask(BODY, path=PATHS["responses"])
    assert response.status == 504, response.bodies
    assert json.loads(lines[0])["result"] == "timeout"
