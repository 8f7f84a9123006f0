"""The sender of a request, as surfaces see it."""

from __future__ import annotations

import hashlib

from starlette.types import Scope

from toolgate_core.errors import ToolgateError

from ..api.surface import Client, Provision
from ..context import RequestContext
from ..features.all import FEATURES
from ..keys.access import key_of
from ..litellm_host.auth import is_master_key, is_ours
from ..sealing import OwnerSeal
from ..state import gateway

BACKGROUND = "toolgate.background"
"""Key in the ASGI scope of a request that is served in the background (background.py)."""
ANYONE = ""
"""Owner of the bodies without a valid key."""
HEADERS = (b"anthropic-beta",)
"""Headers that select features of an API."""


def client_of(scope: Scope, context: RequestContext) -> Client:
    owner = owner_of(scope, context)
    headers = {
        name.decode(): value.decode("latin-1")
        for name, value in scope["headers"]
        if name in HEADERS
    }
    return Client(
        headers,
        seal=OwnerSeal(gateway().sealer, owner),
        responses=gateway().responses,
        values=gateway().kept_values,
        background=scope.get(BACKGROUND),
        provided=provisions(),
    )


def provisions() -> dict[type[Provision], Provision]:
    """Return what the settings provide for features."""
    settings = gateway().settings
    made = (
        each.provided(settings)
        for each in FEATURES
        if each.provided is not None and getattr(settings, each.setting)
    )
    return {type(provision): provision for provision in made}


def owner_of(scope: Scope, context: RequestContext) -> str:
    """Who may use the data that a request creates: the team of its key, or the key."""
    if owner := context.caller.owner:
        return owner
    secret = key_of(scope["headers"]) or ""
    return f"secret {hashlib.sha256(secret.encode()).hexdigest()}"


def owner_of_body(scope: Scope, context: RequestContext) -> str | None:
    """Whose request bodies are counted together. None if they are not: the master key has no
    limits, and another authentication names the sender only after it has read the body. With
    LiteLLM's database its own routes check the key after the body, so that it is looked up here."""
    if context.caller.key is not None:
        return context.caller.key.id
    if context.caller.authenticated or not is_ours():
        return None
    try:
        sent, key_sync = key_of(scope["headers"]) or "", gateway().key_sync
        if is_master_key(sent):
            return None
        return ANYONE if key_sync is None else key_sync.key_cache.find(sent).id
    except ToolgateError:
        return ANYONE
