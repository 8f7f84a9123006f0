"""The request's context in code that LiteLLM calls without an argument of ours to carry it."""

from __future__ import annotations

from contextvars import ContextVar

from ..context import RequestContext

_current: ContextVar[RequestContext | None] = ContextVar("toolgate_request", default=None)


def carry(context: RequestContext) -> None:
    """Makes the context visible to the rest of this task and the tasks that it starts."""
    _current.set(context)


def carried() -> RequestContext | None:
    """None where the gateway runs by `litellm --config`, without our middleware."""
    return _current.get()


def current() -> RequestContext:
    """The context, or one that is thrown away."""
    return _current.get() or RequestContext()
