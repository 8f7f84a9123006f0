"""Spans of OpenTelemetry. While TOOLGATE_TRACES is `off`, its packages are not imported, and each
call here is one comparison.

Names and attributes follow OpenTelemetry's semantic conventions for HTTP and generative AI. No span
has content of a request or response: no prompt, arguments, schema, name of a client's tool, or
key.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

from toolgate_core.errors import ToolgateError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.trace import Span as SdkSpan
    from opentelemetry.trace import Tracer

logger = logging.getLogger("toolgate")

Kind = Literal["internal", "server", "client"]
Value = str | int | float | bool | list[str] | None
SERVICE = "toolgate-gateway"
"""Default of `service.name`; OTEL_SERVICE_NAME replaces it."""
PACKAGES = "opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
"""What the extra [traces] installs."""
CARRIED = ("traceparent", "tracestate")
"""Headers of the W3C trace context."""


class TracingUnavailable(Exception):
    """The packages of the extra [traces] are missing. The message has the command."""


class Span:
    """A span, or nothing while tracing is off."""

    __slots__ = ("_seen", "_span")

    def __init__(self, span: SdkSpan | None = None) -> None:
        self._span = span
        self._seen = False

    def set(self, attributes: Mapping[str, Value]) -> None:
        """Values that are None are left out."""
        if self._span is not None:
            for name, value in attributes.items():
                if value is not None:
                    self._span.set_attribute(name, value)

    def first(self, event: str) -> None:
        """An event at the time of the first of these calls."""
        if self._span is not None and not self._seen:
            self._seen = True
            self._span.add_event(event)

    def fail(self, code: str) -> None:
        """`code`: of the error, which is one of docs/api/errors.md, or an HTTP status."""
        if self._span is not None:
            from opentelemetry.trace import Status, StatusCode

            self._span.set_attribute("error.type", code)
            self._span.set_status(Status(StatusCode.ERROR))

    def end(self) -> None:
        if self._span is not None:
            self._span.end()

    def current(self) -> AbstractContextManager[None]:
        """Spans that begin inside are its children. An error of Toolgate becomes its status."""
        return NOTHING if self._span is None else self._current(self._span)

    def ended(self) -> AbstractContextManager[None]:
        """End the span with the block. An error of Toolgate becomes its status."""
        return NOTHING if self._span is None else self._ended(self._span)

    @contextmanager
    def _current(self, span: SdkSpan) -> Iterator[None]:
        from opentelemetry import trace

        with (
            trace.use_span(
                span, end_on_exit=False, record_exception=False, set_status_on_exception=False
            ),
            self._noting(),
        ):
            yield

    @contextmanager
    def _ended(self, span: SdkSpan) -> Iterator[None]:
        try:
            with self._noting():
                yield
        finally:
            span.end()

    @contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except ToolgateError as error:
            self.fail(error.code or type(error).__name__)
            raise


NONE = Span()
NOTHING = nullcontext()
_provider: TracerProvider | None = None
_tracer: Tracer | None = None


def start(exporter: Literal["off", "otlp", "console"]) -> None:
    """Called once in each process. OTEL_… variables configure the exporter, the resource, the
    sampler and the limits. Raises TracingUnavailable."""
    if exporter == "off" or _tracer is not None:
        return
    try:
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

        if exporter == "console":
            lines = ConsoleSpanExporter(formatter=lambda span: f"{span.to_json(None)}\n")
            processor = BatchSpanProcessor(lines)
        else:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            processor = BatchSpanProcessor(OTLPSpanExporter())
    except ImportError as error:
        raise TracingUnavailable(
            f"TOOLGATE_TRACES={exporter} needs OpenTelemetry's packages ({error.name} is missing): "
            f"run `pip install {PACKAGES}`, or set TOOLGATE_TRACES=off."
        ) from error
    start_with(processor)


def start_with(processor: SpanProcessor) -> None:
    """Spans go to `processor`. The provider is ours alone: LiteLLM's callbacks have their own."""
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider

    global _provider, _tracer
    resource = Resource({SERVICE_NAME: SERVICE}).merge(_named_resource())
    _provider = TracerProvider(resource=resource)
    _provider.add_span_processor(processor)
    _tracer = _provider.get_tracer("toolgate")


def _named_resource() -> Any:
    """The attributes of OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME."""
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    return Resource.get_empty().merge(OTELResourceDetector().detect())


def stop() -> None:
    """Exports the spans that wait. Later spans are dropped."""
    global _provider, _tracer
    provider, _provider, _tracer = _provider, None, None
    if provider is not None:
        provider.shutdown()


def begin(
    name: str,
    kind: Kind = "internal",
    attributes: Mapping[str, Value] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Span:
    """A new span: a child of the current one, or of the one in `headers`. The caller ends it."""
    if _tracer is None:
        return NONE
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = None
    if headers is not None:
        carried = {name: headers[name] for name in CARRIED if name in headers}
        context = TraceContextTextMapPropagator().extract(carried)
    span = Span(_tracer.start_span(name, context, SpanKind[kind.upper()]))
    span.set(attributes or {})
    return span


def outgoing() -> dict[str, str]:
    """The headers that continue the current trace at a backend."""
    if _tracer is None:
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers
