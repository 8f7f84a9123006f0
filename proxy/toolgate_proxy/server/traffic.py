"""Metrics of requests: their number, times and tokens. Each is recorded once, at its end, and as a
span. Nothing is recorded per token.

The tokens of other providers' models are recorded when LiteLLM reports them, which may be later.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from opentelemetry.trace import Span, SpanKind
from starlette.datastructures import Headers
from starlette.types import Message, Scope, Send

from toolgate_core import tracing
from toolgate_core.metric_series import begin_at_zero

from .. import metrics
from ..api.surfaces import SURFACES
from ..context import Caller, Meter, Outcome, RequestContext

STREAM, DELTA = "text/event-stream", b"delta"
OTHER = "other"
MAX_NAMES = 200
"""Maximum number of values of a label: clients choose some, and each is a time series."""
MINUTES = 15
MAX_TIMES = 512
"""Maximum number of first-token times that are kept of one minute."""


class LabelValues:
    """The values of one label: the first MAX_NAMES ones, all others are `other`."""

    def __init__(self, maximum: int = MAX_NAMES) -> None:
        self._known: set[str] = set()
        self._maximum = maximum

    def of(self, value: str, *, trusted: bool = True) -> str:
        """`trusted`: whether a new value may become a time series."""
        if value not in self._known:
            if not trusted or len(self._known) >= self._maximum:
                return OTHER
            self._known.add(value)
        return value


@dataclass
class Minute:
    start: int
    """In minutes since 1970."""
    requests: int = 0
    refused: int = 0
    """Requests with a status of 4xx."""
    failed: int = 0
    """Requests with a status of 5xx, and streams that ended with an error."""
    omitted: int = 0
    """Requests of which the model did not see all as it was sent."""
    first_token_seconds: list[float] = field(default_factory=list)


class RecentRequests:
    """Requests of the last minutes in this process, for the administrator's page. Metrics are
    totals since the start of the process: without Prometheus, they do not show the present."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._minutes: deque[Minute] = deque(maxlen=MINUTES)

    def note(
        self, status: str, first_token_seconds: float | None, *, omitted: bool = False
    ) -> None:
        """`status`: as in the metrics. `omitted`: whether the model saw less than the request."""
        now = int(self._clock() // 60)
        if not self._minutes or self._minutes[-1].start != now:
            self._minutes.append(Minute(now))
        minute = self._minutes[-1]
        minute.requests += 1
        minute.refused += status.startswith("4")
        minute.failed += status.startswith("5") or status == "stream_error"
        minute.omitted += omitted
        if first_token_seconds is not None and len(minute.first_token_seconds) < MAX_TIMES:
            minute.first_token_seconds.append(first_token_seconds)

    def minutes(self) -> list[Minute]:
        """Return the last MINUTES minutes, the earliest first, also those without requests."""
        now = int(self._clock() // 60)
        known = {minute.start: minute for minute in self._minutes}
        return [known.get(at) or Minute(at) for at in range(now - MINUTES + 1, now + 1)]


MODELS = LabelValues()
KEYS = LabelValues()
RECENT = RecentRequests()


def surface_of(scope: Scope) -> str | None:
    """Return the name of the API whose request this is, or None if no model responds to it."""
    if scope["method"] != "POST":
        return None
    for surface in SURFACES:
        if surface.path.fullmatch(scope["path"]) is not None:
            return surface.name.replace(" ", "_")
    return None


def begin(scope: Scope, surface: str | None) -> Span:
    """Return the span of a request. Only those to an API with a model have one."""
    if surface is None:
        return tracing.NONE
    metrics.IN_FLIGHT.labels(surface).inc()
    attributes = {
        "http.request.method": scope["method"],
        "url.path": scope["path"],
        "gen_ai.operation.name": "chat",
        "toolgate.surface": surface,
    }
    name = f"{scope['method']} {scope['path']}"
    return tracing.begin(name, SpanKind.SERVER, attributes, headers=Headers(scope=scope))


def begin_models(models: Iterable[str]) -> None:
    """Begin the series of the configured models, so that their first failure is seen."""
    begin_at_zero(metrics.FAILED, [MODELS.of(model) for model in models])


def end(context: RequestContext, surface: str | None, span: Span = tracing.NONE) -> None:
    _end_span(span, context)
    if surface is not None:
        metrics.IN_FLIGHT.labels(surface).dec()
    if context.model is None:
        return
    meter, outcome, notes = context.meter, context.outcome, context.notes
    name, status, first = surface or OTHER, status_of(outcome), outcome.first_event_seconds
    # A client can name any model: a name that was refused is not worth a time series.
    model = MODELS.of(context.model, trusted=not status.startswith("4"))
    metrics.REQUESTS.labels(model, _key(context.caller), name, status).inc()
    metrics.FAILED.labels(model).inc(status.startswith("5") or status == "stream_error")
    if status.startswith("2"):
        metrics.SECONDS.labels(model, name).observe(time.monotonic() - outcome.began)
    if first is not None:
        metrics.FIRST_TOKEN_SECONDS.labels(model, name).observe(first)
    if meter.counted:
        _tokens(meter, outcome, model, name)
    else:
        meter.on_counted = partial(_tokens, meter, outcome, model, name)
    omissions: set[str] = {change.kind for change in notes.history_changes}
    if notes.omitted_tools:
        omissions.add(metrics.HOSTED_TOOL)
    if notes.invalid_tools:
        omissions.add(metrics.INVALID_TOOL)
    for what in omissions:
        metrics.OMISSIONS.labels(what).inc()
    if surface is not None:
        RECENT.note(status, first, omitted=bool(omissions))


def _end_span(span: Span, context: RequestContext) -> None:
    if not span.is_recording():
        return
    meter, outcome, notes = context.meter, context.outcome, context.notes
    status = status_of(outcome)
    tracing.note(
        span,
        {
            "http.response.status_code": outcome.status,
            "gen_ai.request.model": context.model,
            "gen_ai.usage.input_tokens": meter.prompt_tokens or None,
            "gen_ai.usage.output_tokens": meter.completion_tokens or None,
            "gen_ai.response.time_to_first_chunk": outcome.first_event_seconds,
            "toolgate.request_id": context.request_id,
            "toolgate.enforced": notes.enforced,
            "toolgate.grammars": notes.grammars or None,
            "toolgate.new_grammars": notes.has_new_grammars or None,
            "toolgate.resamples": notes.resamples or None,
            "toolgate.status": status,
        },
    )
    if not status.startswith(("2", "4")):
        tracing.fail(span, outcome.code or status)
    elif status.startswith("4"):  # by convention an error of the client is none of the server
        span.set_attribute("error.type", outcome.code or status)
    span.end()


def status_of(outcome: Outcome) -> str:
    if outcome.status is None:
        return "disconnected"
    if outcome.status >= 400:
        return str(outcome.status)
    if outcome.failed:
        return "stream_error"
    return str(outcome.status) if outcome.sent_whole else "disconnected"


def noting_events(send: Send, context: RequestContext) -> Send:
    """Note the events in a response of LiteLLM's handler. In the streams of all APIs, events with
    output contain the word `delta`. The first one may have a role only."""
    is_stream = False

    async def noted(message: Message) -> None:
        nonlocal is_stream
        if message["type"] == "http.response.start":
            is_stream = Headers(raw=message["headers"]).get("content-type", "").startswith(STREAM)
        elif is_stream and DELTA in message.get("body", b""):
            context.outcome.note_event()
        await send(message)

    return noted


def _tokens(meter: Meter, outcome: Outcome, model: str, surface: str) -> None:
    """Record the tokens, and what depends on their number."""
    if meter.prompt_tokens:
        metrics.TOKENS.labels(model, surface, "input").inc(meter.prompt_tokens)
    if meter.completion_tokens:
        metrics.TOKENS.labels(model, surface, "output").inc(meter.completion_tokens)
    first, last = outcome.first_event, outcome.last_event
    if first is not None and last is not None and meter.completion_tokens > 1:
        mean = (last - first) / (meter.completion_tokens - 1)
        metrics.INTER_TOKEN_SECONDS.labels(model, surface).observe(mean)


def _key(caller: Caller) -> str:
    if caller.key is not None:
        return KEYS.of(caller.key.alias or OTHER)
    return caller.name or "none"
