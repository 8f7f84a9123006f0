"""The sender of a request, as surfaces see it."""

from __future__ import annotations

import hashlib

from starlette.types import Scope

from ..api.surface import Client
from ..context import RequestContext
from ..keys.header import key_of
from ..litellm_host.auth import is_ours
from ..sealing import OwnerSeal
from ..state import gateway

CONNECTION = "toolgate.connection"
"""Key of the ConnectionTurns in the ASGI scope of a request that came over a WebSocket."""
FEATURES = (b"anthropic-beta",)
"""Headers that select features of an API."""


def client_of(scope: Scope, context: RequestContext) -> Client:
    headers = {
        name.decode(): value.decode("latin-1")
        for name, value in scope["headers"]
        if name in FEATURES
    }
    return Client(
        headers,
        OwnerSeal(gateway().sealer, owner_of(scope, context)),
        gateway().responses,
        scope.get(CONNECTION),
    )


def owner_of(scope: Scope, context: RequestContext) -> str:
    """Who may use the data that a request creates: the team of its key, or the key."""
    if context.owner:
        return context.owner
    secret = key_of(scope["headers"]) or ""
    return f"secret {hashlib.sha256(secret.encode()).hexdigest()}"


def owner_of_body(context: RequestContext) -> str | None:
    """Whose request bodies are counted together. None if they are not: the master key has no
    limits, and another authentication names the sender only after it has read the body."""
    if context.key is not None:
        return context.key.id
    return None if context.authenticated or not is_ours() else ""
