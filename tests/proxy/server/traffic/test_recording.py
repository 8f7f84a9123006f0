"""What one request adds to the metrics, and which values its labels can have."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from prometheus_client import REGISTRY

from toolgate_core.chat_request import HistoryChange
from toolgate_proxy.context import RequestContext
from toolgate_proxy.recent_requests import RecentRequests
from toolgate_proxy.server.traffic import recording
from toolgate_proxy.server.traffic.recording import LabelValues

SCOPE = {"method": "POST", "path": "/", "headers": []}


@pytest.fixture(autouse=True)
def labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MODELS", LabelValues())
    monkeypatch.setattr(recording, "KEYS", LabelValues())


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def served(model: str, *, status: int = 200, whole: bool = True) -> RequestContext:
    context = RequestContext(model=model, authenticated=True)
    context.begin_response(status)
    context.sent_whole = whole
    return context


def test_a_request_is_counted_with_its_tokens_and_time() -> None:
    context = served("counted-model")
    context.note_tokens(7, 5, complete=True)
    recording.end(context, None)
    labels = {"model": "counted-model", "surface": "other"}
    assert value("toolgate_requests_total", **labels, key="master", status="200") == 1
    assert value("toolgate_tokens_total", **labels, direction="input") == 7
    assert value("toolgate_tokens_total", **labels, direction="output") == 5
    assert value("toolgate_request_seconds_count", **labels) == 1
    assert value("toolgate_first_token_seconds_count", **labels) == 0


def test_the_times_of_a_stream_are_recorded_once_per_response() -> None:
    context = served("streamed-model")
    context.note_tokens(1, 5, complete=True)
    context.first_event, context.last_event = context.began + 2.0, context.began + 3.0
    recording.end(context, None)
    labels = {"model": "streamed-model", "surface": "other"}
    assert value("toolgate_first_token_seconds_sum", **labels) == pytest.approx(2.0)
    assert value("toolgate_inter_token_seconds_sum", **labels) == pytest.approx(0.25)
    assert value("toolgate_inter_token_seconds_count", **labels) == 1


def test_the_status_tells_errors_and_disconnections_of_streams_apart() -> None:
    assert recording.status_of(served("m")) == "200"
    assert recording.status_of(served("m", status=503)) == "503"
    assert recording.status_of(served("m", whole=False)) == "disconnected"
    assert recording.status_of(RequestContext()) == "disconnected"
    broken = served("m")
    broken.failed = True
    assert recording.status_of(broken) == "stream_error"


def test_what_the_model_did_not_see_is_counted_once_per_request() -> None:
    def counts() -> list[float]:
        kinds = ("hosted_tool", "invalid_tool", "arguments", "left_out", "image")
        return [value("toolgate_omissions_total", what=kind) for kind in kinds]

    before = counts()
    context = served("m")
    context.omitted_tools = ("web_search", "mcp")
    context.invalid_tools = {"look": "/not", "tools[2]": ""}
    context.note_changes(HistoryChange("left_out", f"input[{at}]") for at in range(3))
    recording.end(context, None)
    recording.end(served("m"), None)
    assert [now - then for now, then in zip(counts(), before, strict=True)] == [1, 1, 0, 1, 0]


def test_a_request_without_an_invalid_tool_is_among_those_with_omissions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recent = RecentRequests()
    state = SimpleNamespace(recent_requests=recent)
    monkeypatch.setattr(recording, "gateway", lambda: state)
    left = served("m")
    left.invalid_tools = {"look": "/not"}
    for context in (served("m"), left):
        recording.begin(SCOPE, "responses")
        recording.end(context, "responses")
    assert (recent.minutes()[-1].requests, recent.minutes()[-1].omitted) == (2, 1)


def test_a_model_that_was_refused_is_no_label() -> None:
    recording.end(served("invented-name", status=404), None)
    labels = {"surface": "other", "key": "master", "status": "404"}
    assert value("toolgate_requests_total", model="invented-name", **labels) == 0
    assert value("toolgate_requests_total", model="other", **labels) >= 1


def test_the_values_of_a_label_are_bounded() -> None:
    values = LabelValues(2)
    assert [values.of(each) for each in ("a", "b", "c", "a")] == ["a", "b", "other", "a"]


@pytest.mark.parametrize(
    ("path", "surface"),
    [
        ("/v1/chat/completions", "chat_completions"),
        ("/v1/responses", "responses"),
        ("/v1/messages", "messages"),
        ("/v1/messages/count_tokens", None),
        ("/health/liveliness", None),
    ],
)
def test_requests_in_flight_return_to_their_number(path: str, surface: str | None) -> None:
    name = recording.surface_of({"type": "http", "method": "POST", "path": path, "headers": []})
    assert name == surface
    before = value("toolgate_requests_in_flight", surface=str(surface))
    recording.begin(SCOPE, name)
    during = value("toolgate_requests_in_flight", surface=str(surface))
    recording.end(RequestContext(), name)
    assert during == before + (surface is not None)
    assert value("toolgate_requests_in_flight", surface=str(surface)) == before
