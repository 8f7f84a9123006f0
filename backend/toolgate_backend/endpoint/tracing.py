"""Spans for generations: the request in this process, and its time in the engine's queue, in
prefill and in decoding.

The trace context comes from the gateway in the headers `traceparent` and `tracestate`. vLLM gets
it, too: with its option `--otlp-traces-endpoint`, its own spans are part of the trace.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from opentelemetry.trace import Span, SpanKind

from toolgate_core import tracing, wire

PHASES = ("engine.queue", "engine.prefill", "engine.decode")


class GenerationSpan:
    def __init__(self, span: Span) -> None:
        self._span = span
        self._stats: Any = None
        self.carried = tracing.outgoing(span)
        """The headers that continue the trace in the engine."""

    def observed(self, outputs: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """`outputs` of vLLM, whose statistics become the spans of the engine."""
        return self._observed(outputs) if self._span.is_recording() else outputs

    async def _observed(self, outputs: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for output in outputs:
            self._stats = getattr(output, "metrics", None) or self._stats
            yield output

    def add_phases(self) -> None:
        """Add the engine's spans, from vLLM's RequestStateStats. Its times are those of the
        engine's clock, so that only differences count; they begin at the arrival."""
        if (stats := self._stats) is None:
            return
        counts = (stats.num_generation_tokens, stats.num_preemptions)
        names = ("gen_ai.usage.output_tokens", "toolgate.preemptions")
        tracing.note(self._span, dict(zip(names, counts, strict=True)))
        at = stats.arrival_time
        times = (stats.queued_ts, stats.scheduled_ts, stats.first_token_ts, stats.last_token_ts)
        for name, (begin, end) in zip(PHASES, pairwise(times), strict=True):
            if not begin or end < begin:  # the generation ended before
                return
            part = tracing.begin(name, parent=self._span, at=at)
            at += end - begin
            part.end(int(at * 1e9))


@contextmanager
def generation_span(
    request: wire.GenerateRequest, headers: Mapping[str, str]
) -> Iterator[GenerationSpan]:
    attributes: dict[str, tracing.Value] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": request.model,
        "gen_ai.request.choice.count": request.sampling.n,
        "toolgate.request_id": request.request_id,
    }
    span = tracing.begin("toolgate.generate", SpanKind.SERVER, attributes, headers=headers)
    with tracing.ended(span):
        generation = GenerationSpan(span)
        try:
            yield generation
        finally:
            generation.add_phases()
