"""Context variable with the RequestContext, for code that LiteLLM calls without it; and `hold`, a
workaround for a crash of CPython before 3.12 in `ContextVar.set` (python/cpython#148891).

There the garbage collector may run while a context variable is being set. If a finalizer sets one,
too (`CustomStreamWrapper.__del__` of LiteLLM), the mapping that is being changed is freed, and the
process crashes. `hold` keeps the contexts alive, so their mappings are not freed.
"""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Mapping
from contextvars import Context, ContextVar, copy_context
from typing import Any, Literal

from toolgate_core.host_probe import optional

from ..context import RequestContext

_current: ContextVar[RequestContext | None] = ContextVar("toolgate_request", default=None)


def carry(context: RequestContext) -> None:
    """Set the context for this task and the tasks that it starts."""
    _current.set(context)


def carried() -> RequestContext | None:
    """Return the context; None if the gateway runs as `litellm --config`, without our
    middleware."""
    return _current.get()


def current() -> RequestContext:
    """Return the context, or a new one that is discarded."""
    return _current.get() or RequestContext()


def owner_of(call: Mapping[str, Any]) -> str:
    """Return the team or the key that sent a request. `call`: what LiteLLM passes on of it, in
    whose metadata LiteLLM names the sender. It is used only without our middleware, because at some
    paths clients can write to it."""
    context = carried()
    if context is not None and context.caller.owner:
        return context.caller.owner
    for name in ("metadata", "litellm_metadata"):
        metadata = call.get(name)
        if isinstance(metadata, Mapping) and "user_api_key" in metadata:
            team = (metadata.get("user_api_key_metadata") or {}).get("team")
            team = team or metadata.get("user_api_key_team_id")
            return f"team {team}" if team else f"key {metadata['user_api_key']}"
    return ""


def identity_of(caller: object) -> str | None:
    """Return the team, otherwise the key, otherwise the user, of another authentication's
    description, LiteLLM's UserAPIKeyAuth."""
    for name in ("team_id", "token", "api_key", "user_id"):
        value = optional(caller, name)
        if isinstance(value, str) and value:
            return f"{name} {value}"
    return None


NUMBER = 32
"""Number of collections whose contexts are kept. Setting a variable starts no more collections."""

_held: deque[Context] = deque(maxlen=NUMBER)


def hold() -> None:
    """Install the workaround. Call it once per process."""
    if sys.version_info < (3, 12):
        gc.callbacks.append(_hold)


def _hold(phase: Literal["start", "stop"], _: dict[str, int]) -> None:
    """Keep a copy of the interrupted context, which shares its mapping."""
    if phase == "start":
        _held.append(copy_context())
