"""What requests add to the metrics, who may read these, and the spans of requests."""

import json
import subprocess
import sys
from types import SimpleNamespace

import httpx
import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client import REGISTRY
from pydantic import SecretStr
from starlette.responses import PlainTextResponse

from tests.support.litellm.own_route import CHAT, MASTER, chat
from tests.support.servers.http_client import bearer
from tests.support.servers.script import Script, call
from tests.tools import tool
from toolgate_core import tracing
from toolgate_proxy.app import Gateway as App
from toolgate_proxy.context import Caller, RequestContext
from toolgate_proxy.request.chat_request import HistoryChange
from toolgate_proxy.server import request_scope, traffic
from toolgate_proxy.server.request_scope import RequestScope
from toolgate_proxy.server.traffic import LabelValues, RecentRequests

SCOPE = {"method": "POST", "path": "/", "headers": []}


@pytest.fixture(autouse=True)
def labels(monkeypatch):
    monkeypatch.setattr(traffic, "MODELS", LabelValues())
    monkeypatch.setattr(traffic, "KEYS", LabelValues())


def value(name, **labels):
    return REGISTRY.get_sample_value(name, labels) or 0.0


def served(model, *, status=200, whole=True):
    context = RequestContext(model=model, caller=Caller(authenticated=True))
    context.outcome.begin(status)
    context.outcome.sent_whole = whole
    return context


def test_a_request_is_counted_with_its_tokens_and_times():
    context = served("counted-model")
    context.meter.note_tokens(7, 5, complete=True)
    traffic.end(context, None)
    labels = {"model": "counted-model", "surface": "other"}
    assert value("toolgate_requests_total", **labels, key="master", status="200") == 1
    assert value("toolgate_tokens_total", **labels, direction="input") == 7
    assert value("toolgate_tokens_total", **labels, direction="output") == 5
    assert value("toolgate_request_seconds_count", **labels) == 1
    assert value("toolgate_first_token_seconds_count", **labels) == 0
    context = served("streamed-model")
    context.meter.note_tokens(1, 5, complete=True)
    outcome = context.outcome
    outcome.first_event, outcome.last_event = outcome.began + 2.0, outcome.began + 3.0
    traffic.end(context, None)
    labels = {"model": "streamed-model", "surface": "other"}
    assert value("toolgate_first_token_seconds_sum", **labels) == pytest.approx(2.0)
    assert value("toolgate_inter_token_seconds_sum", **labels) == pytest.approx(0.25)
    assert value("toolgate_inter_token_seconds_count", **labels) == 1


def test_the_status_tells_errors_and_disconnections_of_streams_apart():
    broken = served("m")
    broken.outcome.failed = True
    for context, status in (
        (served("m"), "200"),
        (served("m", status=503), "503"),
        (served("m", whole=False), "disconnected"),
        (RequestContext(), "disconnected"),
        (broken, "stream_error"),
    ):
        assert traffic.status_of(context.outcome) == status


def test_what_the_model_did_not_see_is_counted_once_per_request():
    def counts():
        kinds = ("hosted_tool", "invalid_tool", "arguments", "left_out", "image")
        return [value("toolgate_omissions_total", what=kind) for kind in kinds]

    before = counts()
    context = served("m")
    context.notes.omitted_tools = ("web_search", "mcp")
    context.notes.invalid_tools = {"look": "/not", "tools[2]": ""}
    context.notes.note_changes(HistoryChange("left_out", f"input[{at}]") for at in range(3))
    traffic.end(context, None)
    traffic.end(served("m"), None)
    assert [now - then for now, then in zip(counts(), before, strict=True)] == [1, 1, 0, 1, 0]


def test_a_request_without_an_invalid_tool_is_among_those_with_omissions(monkeypatch):
    monkeypatch.setattr(traffic, "RECENT", recent := RecentRequests())
    left = served("m")
    left.notes.invalid_tools = {"look": "/not"}
    for context in (served("m"), left):
        traffic.begin(SCOPE, "responses")
        traffic.end(context, "responses")
    assert (recent.minutes()[-1].requests, recent.minutes()[-1].omitted) == (2, 1)


def test_labels_are_bounded_and_have_no_refused_model():
    traffic.end(served("invented-name", status=404), None)
    labels = {"surface": "other", "key": "master", "status": "404"}
    assert value("toolgate_requests_total", model="invented-name", **labels) == 0
    assert value("toolgate_requests_total", model="other", **labels) >= 1
    values = LabelValues(2)
    assert [values.of(each) for each in ("a", "b", "c", "a")] == ["a", "b", "other", "a"]


def test_requests_in_flight_return_to_their_number():
    surfaces = {"/chat/completions": "chat_completions", "/responses": "responses", "/health": None,
                "/messages": "messages", "/messages/count_tokens": None}  # fmt: skip
    for path, surface in surfaces.items():
        scope = {"type": "http", "method": "POST", "path": f"/v1{path}", "headers": []}
        name, labels = traffic.surface_of(scope), {"surface": str(surface)}
        assert name == surface
        before = value("toolgate_requests_in_flight", **labels)
        traffic.begin(SCOPE, name)
        during = value("toolgate_requests_in_flight", **labels)
        traffic.end(RequestContext(), name)
        assert during == before + (surface is not None)
        assert value("toolgate_requests_in_flight", **labels) == before


# --- the metrics token opens the metrics and nothing else -----------------------------------------

TOKEN = SecretStr("scrape-token-of-the-tests")


async def scrape(path, *, token, sent, method="GET"):
    async def app(scope, receive, send):
        found = request_scope.scraped(scope, token)
        await (found or PlainTextResponse("passed on"))(scope, receive, send)

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
        return (await http.request(method, path, headers={"authorization": sent})).text


OPENS = f"Bearer {TOKEN.get_secret_value()}"


async def test_the_token_opens_the_metrics_and_all_else_is_passed_on():
    given = {"path": "/metrics", "token": TOKEN, "sent": OPENS}
    for path in ("/metrics", "/toolgate/metrics"):
        text = await scrape(**given | {"path": path})
        assert "# TYPE toolgate_requests_total counter" in text
    for changes in (
        {"sent": "Bearer another"},
        {"sent": "Bearer "},
        {"sent": OPENS.replace("Bearer", "Basic")},
        {"method": "POST"},
        {"path": "/toolgate/status"},
        {"path": "/v1/chat/completions"},
        {"token": None, "sent": "Bearer "},
    ):
        assert await scrape(**given | changes) == "passed on", changes


# --- spans, with OpenTelemetry's own SDK and its exporter in memory -------------------------------

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
SECRET = "swordfish"


@pytest.fixture
def exported(monkeypatch):
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=tests")
    exporter = InMemorySpanExporter()
    tracing.start_with(SimpleSpanProcessor(exporter), "toolgate-gateway")
    yield exporter
    tracing.stop()


@pytest.fixture
async def http(gateway, monkeypatch):
    here = SimpleNamespace(settings=gateway.here.settings)
    monkeypatch.setattr(request_scope, "gateway", lambda: here)
    transport = httpx.ASGITransport(RequestScope(App(gateway.host)))
    more = {"base_url": "http://gateway", "headers": bearer(MASTER)}
    async with httpx.AsyncClient(transport=transport, **more) as client:
        yield client


def by_name(exporter):
    spans = exporter.get_finished_spans()
    named = {span.name: span for span in spans}
    assert len(named) == len(spans)
    return named


def ids(span):
    parent = None if span.parent is None else f"{span.parent.span_id:016x}"
    return f"{span.context.trace_id:032x}", parent


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_is_one_trace_from_the_client_to_the_backend(
    http, gateway, exported, stream
):
    gateway.backend.scripts[SECRET] = Script((call("note", {"text": SECRET}),))
    tools = [tool("note", {"text": {"type": "string", "description": SECRET}})]
    body = chat(SECRET, tools=tools, stream=stream, max_tokens=99, temperature=0.5)
    response = await http.post(CHAT, json=body, headers={"traceparent": TRACEPARENT})
    assert response.status_code == 200

    spans = by_name(exported)
    assert set(spans) == {f"POST {CHAT}", "chat tiny"}
    server, client = spans[f"POST {CHAT}"], spans["chat tiny"]
    assert ids(server) == (TRACE, PARENT)
    own = f"{server.context.span_id:016x}"
    assert ids(client) == (TRACE, own)
    sent = gateway.backend.headers[-1]["traceparent"]
    assert sent == f"00-{TRACE}-{client.context.span_id:016x}-01"
    assert (server.kind, client.kind) == (SpanKind.SERVER, SpanKind.CLIENT)

    attributes = dict(server.attributes)
    assert {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "tiny",
        "gen_ai.usage.input_tokens": 11, "http.response.status_code": 200,
        "toolgate.enforced": "full", "toolgate.grammars": 1,
    }.items() <= attributes.items()  # fmt: skip
    assert ("gen_ai.response.time_to_first_chunk" in attributes) == stream
    assert dict(client.attributes or {})["gen_ai.request.max_tokens"] == 99
    assert [event.name for event in client.events] == ["first output"]
    assert server.resource.attributes["service.name"] == "toolgate-gateway"
    assert server.resource.attributes["deployment.environment"] == "tests"
    shown = "".join(span.to_json() for span in spans.values())
    assert SECRET not in shown
    assert MASTER not in shown


async def test_errors_have_their_code_and_those_of_clients_are_none_of_the_server(
    http, gateway, exported
):
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


async def test_requests_without_a_context_begin_traces_of_their_own(http, exported):
    for header in ({}, {"traceparent": "00-nonsense-01"}):
        await http.post(CHAT, json=chat(), headers=header)
    roots = [span for span in exported.get_finished_spans() if span.kind is SpanKind.SERVER]
    assert len({ids(span)[0] for span in roots}) == 2
    assert {ids(span)[1] for span in roots} == {None}


async def test_without_an_exporter_the_context_is_passed_on(http, gateway):
    response = await http.post(CHAT, json=chat(), headers={"traceparent": TRACEPARENT})
    assert response.status_code == 200
    assert gateway.backend.headers[-1]["traceparent"] == TRACEPARENT
    await http.post(CHAT, json=chat())
    assert "traceparent" not in gateway.backend.headers[-1]


SPANS = """
import os, sys
from toolgate_core import tracing
for exporter in ("none", "zipkin", "console", "otlp"):
    if exporter == "otlp":
        sys.modules["opentelemetry.sdk.trace.export"] = None
    os.environ["OTEL_TRACES_EXPORTER"] = exporter
    for stream in (sys.stdout, sys.stderr):
        print("--", exporter, file=stream, flush=True)
    tracing.start("service")
    span = tracing.begin("outer")
    with tracing.current(span):
        tracing.begin("inner", attributes={"a": 1}).end()
    span.end()
    tracing.stop()
"""


def test_only_the_exporter_console_writes_spans_each_in_a_json_line():
    """Others have a warning, also one whose package can't be imported."""
    command = [sys.executable, "-c", SPANS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told, warned = (
        dict(part.partition("\n")[::2] for part in stream.split("-- ")[1:])
        for stream in (done.stdout, done.stderr)
    )
    assert [json.loads(line)["name"] for line in told.pop("console").splitlines()] == [
        "inner",
        "outer",
    ]
    assert {*told.values()} == {""}
    assert "only otlp, console and none" in warned["zipkin"]
    assert "has no effect on Toolgate: opentelemetry" in warned["otlp"]
    assert (warned["none"], warned["console"]) == ("", "")
