"""One generation at one backend: what was sent, and the events that arrive. One without
enforcement, for comparison, has the same prompt and sampling."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from opentelemetry.trace import Span, SpanKind

from toolgate_core import tracing, wire

from ..backend_client.client import Backend
from ..backend_client.event_stream import EventStream
from ..context import RequestContext
from ..request.chat_request import HistoryChange
from ..routing.deployments import Deployment
from .constraints import Constraints
from .preparation import PreparedRequest
from .resampling_state import choice_events
from .response import ChatResponse, ResponseEvent


@dataclass(frozen=True)
class Generation:
    """A request that a backend has accepted."""

    constraints: Constraints
    events: EventStream
    span: Span

    @property
    def prepared(self) -> PreparedRequest:
        return self.constraints.prepared

    async def read(
        self, response: ChatResponse, context: RequestContext
    ) -> AsyncGenerator[list[ResponseEvent], None]:
        """Yield the events of the response in batches: segment → validate. A batch contains
        everything that had arrived from the backend. Raise ToolgateError."""
        resample = self.constraints.resample
        first = True
        with tracing.ended(self.span):
            async with aclosing(self.events) as batches:
                async for batch in batches:
                    if isinstance(start := batch[0] if batch else None, wire.StartEvent):
                        self._note_start(start, context)
                    fed = choice_events(batch, resample.choice) if resample else batch
                    events = await response.feed(fed)
                    counts = response.counts
                    await context.meter.admit_prompt(counts.prompt)
                    context.meter.note_tokens(counts.prompt, counts.completion)
                    if events and first:
                        self.span.add_event("first output")
                        first = False
                    yield events
                    if response.complete:
                        break

    def _note_start(self, start: wire.StartEvent, context: RequestContext) -> None:
        """Note how the backend changed the request."""
        asked = self.prepared.request.sampling.max_tokens
        if asked is not None and start.max_tokens is not None and start.max_tokens < asked:
            context.notes.headers.setdefault("x-toolgate-max-tokens", str(start.max_tokens))
        paths = self.prepared.request.message_paths
        known = ((kind, at) for kind, at in start.adapted if at < len(paths))
        context.notes.note_changes(HistoryChange(kind, paths[at]) for kind, at in known)

    def accepted(self, deployment: Deployment, context: RequestContext, known: Constraints) -> None:
        """Count the grammars and note how they are enforced. `known`: with all verdicts."""
        deployment.grammars.count(self.constraints.needed)
        request, plan = known.prepared.request, known.prepared.plan
        constrained = request.tools or request.content_format
        context.notes.note_enforcement(constrained, known.needed.residual, plan.grammars)

    async def verdicts(self) -> Sequence[wire.GrammarVerdict]:
        """Wait for the start of the response. Return the verdicts on new grammars."""
        return (await self.events.start()).verdicts

    async def aclose(self) -> None:
        """End the generation before it is read."""
        await self.events.aclose()
        tracing.end(self.span)


async def begun(
    constraints: Constraints,
    deployment: Deployment,
    context: RequestContext,
    deadline: float | None,
) -> Generation:
    """Send the request. `deadline`: that of the response that is continued, by time.monotonic.
    Raise ToolgateError, among them GrammarsRefused."""
    key = context.caller.key
    metered = context.meter.is_logged or (key is not None and key.limits.counts_output)
    message = constraints.message(context.request_id, metered=metered)
    message = await deployment.grammars.with_records(message)
    span, events = await _sent(deployment.backend, message, deadline)
    generation = Generation(constraints, events, span)
    if not constraints.needed.unknown:
        generation.accepted(deployment, context, constraints)
    return generation


async def _sent(
    backend: Backend, message: wire.GenerateRequest, deadline: float | None
) -> tuple[Span, EventStream]:
    """Send the request. Return its span, which ends with its events."""
    span = tracing.begin(
        f"chat {message.model}",
        SpanKind.CLIENT,
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "vllm",
            "gen_ai.request.model": message.model,
            "gen_ai.request.max_tokens": message.sampling.max_tokens,
            "gen_ai.request.temperature": message.sampling.temperature,
            "gen_ai.request.top_p": message.sampling.top_p,
            "gen_ai.request.choice.count": message.sampling.n,
        },
    )
    try:
        with tracing.current(span):
            return span, await backend.generate(message, deadline)
    except BaseException as error:
        tracing.end(span, error)
        raise


@dataclass(frozen=True)
class UnconstrainedGeneration:
    """A generation without enforcement. Its events have all tokens and the dialect's marks."""

    prepared: PreparedRequest
    """What the request asks for. Nothing enforces its plan."""
    events: EventStream

    @property
    def ends(self) -> frozenset[int]:
        """The ids of the tokens that end a turn."""
        return frozenset(self.prepared.info.marks.end_of_turn)


async def begun_unconstrained(
    prepared: PreparedRequest, deployment: Deployment
) -> UnconstrainedGeneration:
    """Send the request. Raise ToolgateError."""
    request = prepared.request
    message = wire.GenerateRequest(
        request_id=request.request_id,
        model=request.model,
        fingerprint=prepared.info.fingerprint,
        prompt=prepared.prompt,
        sampling=request.sampling,
        priority=request.priority,
        cache_salt=request.cache_salt,
    )
    return UnconstrainedGeneration(prepared, await deployment.backend.generate(message))
