"""Context variable with the RequestContext, for code that LiteLLM calls without it."""

from __future__ import annotations

from contextvars import ContextVar

from ..context import RequestContext

_current: ContextVar[RequestContext | None] = ContextVar("toolgate_request", default=None)


def carry(context: RequestContext) -> None:
    """Sets the context for this task and the tasks that it starts."""
    _current.set(context)


def carried() -> RequestContext | None:
    """The context; None if the gateway runs as `litellm --config`, without our middleware."""
    return _current.get()


def current() -> RequestContext:
    """The context, or a new one that is discarded."""
    return _current.get() or RequestContext()
