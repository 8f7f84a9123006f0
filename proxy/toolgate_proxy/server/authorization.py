"""Authorization of every request before LiteLLM's app receives it, and its sender as surfaces see
it.

LiteLLM answers dozens of its routes without a key: its UI, API documentation, single sign-on, OAuth
discovery, public lists. Some of them fetch from the internet, and each release adds more. Without
LiteLLM's database they have no use. So the gateway itself requires a key on every route, except
health probes and the routes of `TOOLGATE_OPEN_ROUTES`. The files of our own page (page/)
are answered before.

If LiteLLM's configuration names another authentication than ours, its routes check the key.
`ClosedRoutes` then closes those that do not.
"""

from __future__ import annotations

import hashlib
from functools import partial
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Receive, Scope, Send

from toolgate_core.errors import InvalidKey, RouteClosed, ToolgateError

from .. import metrics
from ..api.surface import Client, Provision
from ..context import RequestContext, context_of, route_path
from ..features.all import FEATURES
from ..keys.access import may_open, refusal
from ..litellm_host import auth
from ..litellm_host.app import serves_without_key
from ..litellm_host.proxy_server import has_database
from ..sealing import OwnerSeal
from ..state import gateway
from .connection import Reply

READY = "/toolgate/ready"
READY_MODELS = f"{READY}/"
"""Begin of the paths of the probes of single models."""
LITELLM_READY = "/health/readiness"
HEALTH = frozenset({"/health/liveliness", "/health/liveness", LITELLM_READY, READY})
"""Probes of load balancers and orchestrators. They need no key."""
GOOGLE_PATH = "generatecontent"
BACKGROUND = "toolgate.background"
"""Key in the ASGI scope of a request that is served in the background (background.py)."""
ANYONE = ""
"""Owner of the bodies without a valid key."""
HEADERS = (b"anthropic-beta",)
"""Headers that select features of an API."""


async def authorize(scope: Scope, context: RequestContext) -> None:
    """Check the key and its permission for the route. Raise InvalidKey, RetiredKey,
    TooManyWrongKeys, KeysUnavailable and PermissionDenied."""
    path = route_path(scope)
    if is_open(path):
        return
    if has_database():
        _check_virtual_key(scope, context, path)
        return
    await check_key(scope, context)
    if context.caller.key is not None and not may_open(scope["method"], path):
        raise refusal(scope["method"], path)


async def check_key(scope: Scope, context: RequestContext) -> None:
    """Set the key of the request's caller, and that it is authenticated, before the body is read.
    Do nothing if LiteLLM's configuration names another authentication. Raise InvalidKey,
    RetiredKey, TooManyWrongKeys, KeysUnavailable and PermissionDenied."""
    if not auth.is_ours():
        return
    try:
        auth.check_address(scope)
        sent = context.caller.sent_key or _key_in_query(scope)
        if not sent:
            raise InvalidKey("The request has no API key. Send `Authorization: Bearer <key>`.")
        key = await auth.identify(sent, auth.address_of(scope))
        key_sync, context.caller.key = gateway().key_sync, key
        if key is not None and key_sync is not None:
            context.caller.require_key = partial(key_sync.key_cache.require_current, key)
    except ToolgateError as error:
        metrics.KEYS_REFUSED.labels(error.code).inc()
        raise
    context.caller.authenticated = True


def is_probe(path: str) -> bool:
    return path in HEALTH or path.startswith(READY_MODELS)


def is_open(path: str) -> bool:
    """Return whether a route needs no key."""
    return is_probe(path) or any(_is_below(path, each) for each in gateway().settings.open_routes)


class ClosedRoutes:
    """ASGI middleware that closes the routes which LiteLLM serves without a key. It is the
    innermost one: LiteLLM loads some routes on the first request to their path."""

    def __init__(self, app: ASGIApp, host: object) -> None:
        """`host`: LiteLLM's app."""
        self._app = app
        self._host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._is_closed(scope):
            error = RouteClosed(
                "This route is closed. The administrator can open it with TOOLGATE_OPEN_ROUTES."
            )
            await Reply(send, context_of(scope)).fail(error)
            return
        await self._app(scope, receive, send)

    def _is_closed(self, scope: Scope) -> bool:
        path = route_path(scope)
        if auth.is_ours() or has_database() or is_open(path):
            return False
        return serves_without_key(self._host, scope, path)


def _check_virtual_key(scope: Scope, context: RequestContext, path: str) -> None:
    """Raise PermissionDenied where a virtual key is used for anything but models. Some of
    LiteLLM's routes have an authentication of their own."""
    key, key_sync = context.caller.sent_key, gateway().key_sync
    if not key or key_sync is None or may_open(scope["method"], path):
        return
    if key in key_sync.key_cache:
        raise refusal(scope["method"], path)


def _key_in_query(scope: Scope) -> str:
    """Return the key that clients of Google's API send in the URL."""
    if GOOGLE_PATH not in scope["path"].lower():
        return ""
    values = parse_qs(bytes(scope.get("query_string", b"")).decode("latin-1"))
    return values.get("key", [""])[0]


def _is_below(path: str, opened: str) -> bool:
    """Return whether `path` is the route `opened` or below it. `*` is every route."""
    return opened == "*" or path == opened or path.startswith(opened.rstrip("/") + "/")


def client_of(scope: Scope, context: RequestContext) -> Client:
    owner = owner_of(context)
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
    provided = (
        each.provided(settings)
        for each in FEATURES
        if each.provided is not None and getattr(settings, each.setting)
    )
    return {type(provision): provision for provision in provided}


def owner_of(context: RequestContext) -> str:
    """Return who may use the data that a request creates: the team of its key, or the key."""
    if owner := context.caller.owner:
        return owner
    return f"secret {hashlib.sha256(context.caller.sent_key.encode()).hexdigest()}"


def owner_of_body(context: RequestContext) -> str | None:
    """Return whose request bodies are counted together. None if they are not: the master key has no
    limits, and another authentication names the sender only after it has read the body. With
    LiteLLM's database its own routes check the key after the body, so that it is looked up here."""
    if context.caller.key is not None:
        return context.caller.key.id
    if context.caller.authenticated or not auth.is_ours():
        return None
    try:
        sent, key_sync = context.caller.sent_key, gateway().key_sync
        if auth.is_master_key(sent):
            return None
        return ANYONE if key_sync is None else key_sync.key_cache.find(sent).id
    except ToolgateError:
        return ANYONE
