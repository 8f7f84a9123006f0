"""The span of one HTTP request to an API. It begins and ends with the request."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Scope

from ... import tracing
from ...context import RequestContext
from .recording import status_of

OPERATIONS = {"chat_completions": "chat", "responses": "chat", "messages": "chat"}
"""`gen_ai.operation.name` by API."""


def begin(scope: Scope, surface: str | None) -> tracing.Span:
    """Only requests to an API with a model have a span."""
    if surface is None:
        return tracing.NONE
    attributes = {
        "http.request.method": scope["method"],
        "url.path": scope["path"],
        "gen_ai.operation.name": OPERATIONS.get(surface, surface),
        "toolgate.surface": surface,
    }
    name = f"{scope['method']} {scope['path']}"
    return tracing.begin(name, "server", attributes, Headers(scope=scope))


def end(span: tracing.Span, context: RequestContext) -> None:
    if span is tracing.NONE:
        return
    status = status_of(context)
    first = context.first_event
    span.set(
        {
            "http.response.status_code": context.status,
            "gen_ai.request.model": context.model,
            "gen_ai.usage.input_tokens": context.prompt_tokens or None,
            "gen_ai.usage.output_tokens": context.completion_tokens or None,
            "gen_ai.response.time_to_first_chunk": None if first is None else first - context.began,
            "toolgate.request_id": context.request_id,
            "toolgate.enforced": context.enforced,
            "toolgate.grammars": context.grammars or None,
            "toolgate.grammar_tier": context.tier if context.grammars else None,
            "toolgate.resamples": context.resamples or None,
            "toolgate.status": status,
        }
    )
    if not status.startswith(("2", "4")):
        span.fail(context.error_code or status)
    elif status.startswith("4"):  # by convention an error of the client is none of the server
        span.set({"error.type": context.error_code or status})
    span.end()
