"""Spans of requests, with OpenTelemetry's own SDK and its exporter in memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from tests.support.litellm.own_route import CHAT, MASTER, Gateway, chat
from tests.support.servers.http_client import bearer
from tests.support.servers.script import Script, call
from tests.tools import tool
from toolgate_core import tracing
from toolgate_proxy.app import Gateway as App
from toolgate_proxy.server import request_scope
from toolgate_proxy.server.request_scope import RequestScope

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
SECRET = "swordfish"


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=tests")
    exporter = InMemorySpanExporter()
    tracing.start_with(SimpleSpanProcessor(exporter), "toolgate-gateway")
    yield exporter
    tracing.stop()


@pytest.fixture
async def http(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[httpx.AsyncClient]:
    here = SimpleNamespace(settings=gateway.here.settings)
    monkeypatch.setattr(request_scope, "gateway", lambda: here)
    transport = httpx.ASGITransport(RequestScope(App(gateway.host)))
    headers = bearer(MASTER)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://gateway", headers=headers
    ) as client:
        yield client


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    spans = exporter.get_finished_spans()
    named = {span.name: span for span in spans}
    assert len(named) == len(spans)
    return named


def ids(span: ReadableSpan) -> tuple[str, str | None]:
    parent = None if span.parent is None else f"{span.parent.span_id:016x}"
    assert span.context is not None
    return f"{span.context.trace_id:032x}", parent


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_is_one_trace_from_the_client_to_the_backend(
    http: httpx.AsyncClient, gateway: Gateway, exported: InMemorySpanExporter, stream: bool
) -> None:
    gateway.backend.scripts[SECRET] = Script((call("note", {"text": SECRET}),))
    tools = [tool("note", {"text": {"type": "string", "description": SECRET}})]
    body = chat(SECRET, tools=tools, stream=stream, max_tokens=99, temperature=0.5)
    response = await http.post(CHAT, json=body, headers={"traceparent": TRACEPARENT})
    assert response.status_code == 200

    spans = by_name(exported)
    assert set(spans) == {f"POST {CHAT}", "toolgate.grammars", "chat tiny"}
    server, grammars, client = (
        spans[n] for n in (f"POST {CHAT}", "toolgate.grammars", "chat tiny")
    )
    assert ids(server) == (TRACE, PARENT)
    assert server.context is not None
    own = f"{server.context.span_id:016x}"
    assert ids(grammars) == ids(client) == (TRACE, own)
    assert client.context is not None
    sent = gateway.backend.headers[-1]["traceparent"]
    assert sent == f"00-{TRACE}-{client.context.span_id:016x}-01"
    assert (server.kind, client.kind) == (SpanKind.SERVER, SpanKind.CLIENT)

    attributes = dict(server.attributes or {})
    assert attributes["gen_ai.operation.name"] == "chat"
    assert attributes["gen_ai.request.model"] == "tiny"
    assert attributes["gen_ai.usage.input_tokens"] == 11
    assert attributes["http.response.status_code"] == 200
    assert attributes["toolgate.enforced"] == "full"
    assert ("gen_ai.response.time_to_first_chunk" in attributes) == stream
    assert dict(client.attributes or {})["gen_ai.request.max_tokens"] == 99
    assert [event.name for event in client.events] == ["first output"]
    assert server.resource.attributes["service.name"] == "toolgate-gateway"
    assert server.resource.attributes["deployment.environment"] == "tests"
    assert not any(SECRET in span.to_json() for span in exported.get_finished_spans())
    assert not any(MASTER in span.to_json() for span in exported.get_finished_spans())


async def test_errors_have_their_code_and_those_of_clients_are_none_of_the_server(
    http: httpx.AsyncClient, gateway: Gateway, exported: InMemorySpanExporter
) -> None:
    gateway.backend.scripts["broken"] = Script(("Hello there",), error_after=1)
    await http.post(CHAT, json=chat("broken", stream=True))
    broken = by_name(exported)
    server, client = broken[f"POST {CHAT}"], broken["chat tiny"]
    assert server.status.status_code is client.status.status_code is StatusCode.ERROR
    assert dict(client.attributes or {})["error.type"] == "enforcement_failed"
    exported.clear()

    assert (await http.post(CHAT, json=chat(temperature="hot"))).status_code == 400
    (refused,) = exported.get_finished_spans()
    assert refused.status.status_code is StatusCode.UNSET
    assert dict(refused.attributes or {})["error.type"] == "invalid_request"


async def test_requests_without_a_context_begin_traces_of_their_own(
    http: httpx.AsyncClient, exported: InMemorySpanExporter
) -> None:
    for header in ({}, {"traceparent": "00-nonsense-01"}):
        await http.post(CHAT, json=chat(), headers=header)
    roots = [span for span in exported.get_finished_spans() if span.kind is SpanKind.SERVER]
    assert len({ids(span)[0] for span in roots}) == 2
    assert {ids(span)[1] for span in roots} == {None}


async def test_without_an_exporter_the_context_is_passed_on(
    http: httpx.AsyncClient, gateway: Gateway
) -> None:
    response = await http.post(CHAT, json=chat(), headers={"traceparent": TRACEPARENT})
    assert response.status_code == 200
    assert gateway.backend.headers[-1]["traceparent"] == TRACEPARENT
    await http.post(CHAT, json=chat())
    assert "traceparent" not in gateway.backend.headers[-1]


def run(exporter: str, *forbidden: str) -> subprocess.CompletedProcess[str]:
    """Two spans of a process. `forbidden`: modules that can't be imported."""
    script = (
        f"import sys; sys.modules.update(dict.fromkeys({forbidden}))\n"
        "from toolgate_core import tracing; tracing.start('service')\n"
        "span = tracing.begin('outer')\n"
        "with tracing.current(span):\n    tracing.begin('inner', attributes={'a': 1}).end()\n"
        "span.end(); tracing.stop(); print('opentelemetry.sdk' in sys.modules)"
    )
    environment = os.environ | {"OTEL_TRACES_EXPORTER": exporter}
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment)


def test_the_exporter_console_writes_one_json_line_per_span() -> None:
    *lines, _ = run("console").stdout.splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["inner", "outer"]


@pytest.mark.parametrize(
    ("exporter", "forbidden", "warned"),
    [
        ("none", (), ""),
        ("zipkin", (), "only otlp, console and none"),
        ("otlp", ("opentelemetry.sdk.trace.export",), "has no effect on Toolgate: opentelemetry"),
    ],
)
def test_without_an_exporter_no_spans_are_recorded(
    exporter: str, forbidden: tuple[str, ...], warned: str
) -> None:
    result = run(exporter, *forbidden)
    assert len(result.stdout.splitlines()) == 1
    assert warned in result.stderr
    assert bool(result.stderr) == bool(warned)
