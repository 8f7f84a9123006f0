"""Spans of OpenTelemetry, of gateway and backend. Without an exporter, its API records nothing and
passes the trace context on.

Names and attributes follow OpenTelemetry's semantic conventions for HTTP and generative AI. No span
has content of a request or response: no prompt, arguments, schema, name of a client's tool, or
key.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.trace import INVALID_SPAN, NoOpTracer, Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from .errors import ToolgateError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

logger = logging.getLogger("toolgate")

Value = str | int | float | bool | list[str] | None
EXPORTER = "OTEL_TRACES_EXPORTER"
NONE: Span = INVALID_SPAN
_CONTEXT = TraceContextTextMapPropagator()
_provider: TracerProvider | None = None
_tracer: trace.Tracer = NoOpTracer()


def start(service: str) -> None:
    """Export spans as OTEL_TRACES_EXPORTER says. Called once in each process. Other OTEL_…
    variables configure the exporter, the resource, the sampler and the limits. `service`: default
    of `service.name`."""
    exporter = os.environ.get(EXPORTER, "none")
    if exporter == "none":
        return
    try:
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

        if exporter == "console":
            lines = ConsoleSpanExporter(formatter=lambda span: f"{span.to_json(None)}\n")
            start_with(BatchSpanProcessor(lines), service)
        elif exporter == "otlp":
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            start_with(BatchSpanProcessor(OTLPSpanExporter()), service)
        else:
            logger.warning("%s=%s: Toolgate has only otlp, console and none.", EXPORTER, exporter)
    except ImportError as error:
        logger.warning(
            "%s=%s has no effect on Toolgate: %s is missing. Install opentelemetry-sdk and "
            "opentelemetry-exporter-otlp-proto-http.",
            EXPORTER,
            exporter,
            error.name,
        )


def start_with(processor: SpanProcessor, service: str) -> None:
    """Spans go to `processor`. The provider is ours alone: vLLM and LiteLLM have their own."""
    from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider

    global _provider, _tracer
    resource = Resource({SERVICE_NAME: service}).merge(OTELResourceDetector().detect())
    _provider = TracerProvider(resource=resource)
    _provider.add_span_processor(processor)
    _tracer = _provider.get_tracer("toolgate")


def stop() -> None:
    """Export the spans that wait. Later spans are dropped."""
    global _provider, _tracer
    provider, _provider, _tracer = _provider, None, NoOpTracer()
    if provider is not None:
        provider.shutdown()


def begin(
    name: str,
    kind: SpanKind = SpanKind.INTERNAL,
    attributes: Mapping[str, Value] | None = None,
    *,
    headers: Mapping[str, str] | None = None,
) -> Span:
    """Return a new span: a child of the current one, or of the one in `headers`. The caller ends
    it."""
    context = None
    if headers is not None:
        carried = {each: headers[each] for each in _CONTEXT.fields if each in headers}
        context = _CONTEXT.extract(carried)
    return note(_tracer.start_span(name, context, kind), attributes or {})


def note(span: Span, attributes: Mapping[str, Value]) -> Span:
    """Set attributes. Values that are None are left out."""
    span.set_attributes({name: each for name, each in attributes.items() if each is not None})
    return span


def fail(span: Span, code: str) -> None:
    """`code`: of the error, which is one of docs/api/errors.md, or an HTTP status."""
    span.set_attribute("error.type", code)
    span.set_status(StatusCode.ERROR)


def current(span: Span) -> AbstractContextManager[object]:
    """Spans that begin inside are children of `span`."""
    if not span.get_span_context().is_valid:
        return nullcontext()
    return trace.use_span(span, record_exception=False, set_status_on_exception=False)


@contextmanager
def ended(span: Span) -> Iterator[None]:
    """End the span with the block."""
    try:
        yield
    except BaseException as error:
        end(span, error)
        raise
    end(span)


def end(span: Span, error: BaseException | None = None) -> None:
    """End a span. An error becomes its status, unless its task was only cancelled."""
    if isinstance(error, Exception):
        code = error.code if isinstance(error, ToolgateError) else None
        fail(span, code or type(error).__name__)
    span.end()


def outgoing(span: Span | None = None) -> dict[str, str]:
    """Return the headers that continue the trace of `span`, or the current one, elsewhere."""
    headers: dict[str, str] = {}
    _CONTEXT.inject(headers, None if span is None else trace.set_span_in_context(span))
    return headers
