"""Spans of generations, with OpenTelemetry's own SDK and its exporter in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from toolgate_backend.endpoint.tracing import GenerationSpan, generation_span
from toolgate_core import tracing, wire
from toolgate_core.errors import ContextLengthExceeded

HEADERS = {
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "authorization": "Bearer swordfish",
}
PROMPT = wire.ChatPrompt(messages=({"role": "user", "content": "swordfish"},))
REQUEST = wire.GenerateRequest(request_id="r", model="tiny", prompt=PROMPT)


@dataclass
class Stats:
    """vLLM's RequestStateStats, as far as it is read."""

    arrival_time: float = 1_000.0
    queued_ts: float = 50.0
    scheduled_ts: float = 50.5
    first_token_ts: float = 52.5
    last_token_ts: float = 56.5
    num_generation_tokens: int = 9
    num_preemptions: int = 1


@pytest.fixture
def exported() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    tracing.start_with(SimpleSpanProcessor(exporter), "toolgate-backend")
    yield exporter
    tracing.stop()


async def outputs(*stats: Stats | None) -> AsyncIterator[Any]:
    for each in stats:
        yield SimpleNamespace(metrics=each)


async def read(span: GenerationSpan, *stats: Stats | None) -> int:
    return len([each async for each in span.observed(outputs(*stats))])


def seconds(span: ReadableSpan) -> tuple[float, float]:
    assert span.start_time is not None
    assert span.end_time is not None
    return span.start_time / 1e9, span.end_time / 1e9


async def test_a_generation_has_the_engines_queue_prefill_and_decoding(
    exported: InMemorySpanExporter,
) -> None:
    with generation_span(REQUEST, HEADERS) as span:
        assert await read(span, None, Stats()) == 2
        carried = span.carried
    spans = {each.name: each for each in exported.get_finished_spans()}
    generation = spans["toolgate.generate"]
    assert generation.context is not None
    assert generation.parent is not None
    assert f"{generation.parent.span_id:016x}" in HEADERS["traceparent"]
    assert carried == {
        "traceparent": f"00-4bf92f3577b34da6a3ce929d0e0e4736-{generation.context.span_id:016x}-01"
    }
    names = ["engine.queue", "engine.prefill", "engine.decode"]
    assert [seconds(spans[name]) for name in names] == [
        (1_000.0, 1_000.5),
        (1_000.5, 1_002.5),
        (1_002.5, 1_006.5),
    ]
    for name in names:
        parent = spans[name].parent
        assert parent is not None
        assert parent.span_id == generation.context.span_id
    attributes = dict(generation.attributes or {})
    assert attributes["gen_ai.usage.output_tokens"] == 9
    assert attributes["toolgate.preemptions"] == 1
    assert not any("swordfish" in each.to_json() for each in spans.values())


async def test_phases_that_did_not_begin_have_no_span(exported: InMemorySpanExporter) -> None:
    with generation_span(REQUEST, {}) as span:
        await read(span, Stats(first_token_ts=0.0, last_token_ts=0.0))
    names = [each.name for each in exported.get_finished_spans()]
    assert names == ["engine.queue", "toolgate.generate"]


def test_an_error_has_its_code_and_a_closed_generation_is_none(
    exported: InMemorySpanExporter,
) -> None:
    with pytest.raises(ContextLengthExceeded), generation_span(REQUEST, {}):
        raise ContextLengthExceeded("Too long.")
    with pytest.raises(GeneratorExit), generation_span(REQUEST, {}):
        raise GeneratorExit
    failed, closed = exported.get_finished_spans()
    assert failed.status.status_code is StatusCode.ERROR
    assert dict(failed.attributes or {})["error.type"] == ContextLengthExceeded("").code
    assert closed.status.status_code is StatusCode.UNSET


async def test_without_tracing_the_context_is_passed_on_and_outputs_are_untouched() -> None:
    with generation_span(REQUEST, HEADERS) as span:
        assert span.carried == {"traceparent": HEADERS["traceparent"]}
        stream = outputs()
        assert span.observed(stream) is stream
