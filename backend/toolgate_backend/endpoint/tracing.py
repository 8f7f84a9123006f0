"""Spans of OpenTelemetry for generations: the request in this process, and its time in the engine's
queue, in prefill and in decoding. While TOOLGATE_TRACES is `off`, nothing is imported or measured.

The trace context comes from the gateway in the headers `traceparent` and `tracestate`. vLLM gets
it, too: with its option `--otlp-traces-endpoint`, its own spans are part of the trace. No span has
content of a request or response.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from toolgate_core import wire
from toolgate_core.errors import ToolgateError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import Span, Tracer

SERVICE = "toolgate-backend"
"""Default of `service.name`; OTEL_SERVICE_NAME replaces it."""
CARRIED = ("traceparent", "tracestate")

_tracer: Tracer | None = None


def start(exporter: Literal["off", "otlp", "console"]) -> None:
    """OTEL_… variables configure the exporter, the resource and the sampler. vLLM requires the
    packages."""
    if exporter == "off" or _tracer is not None:
        return
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

    if exporter == "console":
        lines = ConsoleSpanExporter(formatter=lambda span: f"{span.to_json(None)}\n")
        start_with(BatchSpanProcessor(lines))
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    start_with(BatchSpanProcessor(OTLPSpanExporter()))


def start_with(processor: SpanProcessor) -> None:
    """Spans go to `processor`. The provider is ours alone: vLLM has its own."""
    from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider

    global _tracer
    named = OTELResourceDetector().detect()
    provider = TracerProvider(resource=Resource({SERVICE_NAME: SERVICE}).merge(named))
    provider.add_span_processor(processor)
    _tracer = provider.get_tracer("toolgate")


def stop() -> None:
    """Later spans are dropped."""
    global _tracer
    _tracer = None


class GenerationSpan:
    """The span of one generation, or nothing while tracing is off."""

    def __init__(self, request: wire.GenerateRequest, headers: Mapping[str, str]) -> None:
        self.carried = {name: headers[name] for name in CARRIED if name in headers}
        """The headers that continue the trace in the engine."""
        self._span: Span | None = None
        self._stats: Any = None
        if _tracer is None:
            return
        from opentelemetry.trace import SpanKind, set_span_in_context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        propagator = TraceContextTextMapPropagator()
        attributes: dict[str, str | int] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": request.model,
            "gen_ai.request.choice.count": request.sampling.n,
            "toolgate.request_id": request.request_id,
        }
        parent = propagator.extract(self.carried)
        self._span = _tracer.start_span(
            "toolgate.generate", parent, SpanKind.SERVER, attributes=attributes
        )
        self.carried = {}
        propagator.inject(self.carried, set_span_in_context(self._span))

    def observed(self, outputs: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """`outputs` of vLLM, whose statistics become the spans of the engine."""
        return outputs if self._span is None else self._observed(outputs)

    async def _observed(self, outputs: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for output in outputs:
            self._stats = getattr(output, "metrics", None) or self._stats
            yield output

    def __enter__(self) -> GenerationSpan:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if self._span is None:
            return
        if kind is not None and kind is not GeneratorExit:
            from opentelemetry.trace import Status, StatusCode

            code = error.code if isinstance(error, ToolgateError) else None
            self._span.set_attribute("error.type", code or kind.__name__)
            self._span.set_status(Status(StatusCode.ERROR))
        if self._stats is not None:
            self._add_engine_spans(self._span, self._stats)
        self._span.end()

    def _add_engine_spans(self, span: Span, stats: Any) -> None:
        """`stats`: vLLM's RequestStateStats. Its times are those of the engine's clock, so that
        only differences count; they begin at the arrival."""
        from opentelemetry.trace import set_span_in_context

        assert _tracer is not None
        context = set_span_in_context(span)
        span.set_attribute("gen_ai.usage.output_tokens", stats.num_generation_tokens)
        span.set_attribute("toolgate.preemptions", stats.num_preemptions)
        at = stats.arrival_time
        steps = (stats.queued_ts, stats.scheduled_ts, stats.first_token_ts, stats.last_token_ts)
        names = ("engine.queue", "engine.prefill", "engine.decode")
        for name, (begin, end) in zip(names, pairwise(steps), strict=True):
            if not begin or end < begin:  # the generation ended before
                return
            part = _tracer.start_span(name, context, start_time=int(at * 1e9))
            at += end - begin
            part.end(int(at * 1e9))
