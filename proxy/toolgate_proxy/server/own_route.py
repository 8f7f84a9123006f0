"""Our own route in LiteLLM's app: answers requests for our models, and passes on every other.

A request of a surface (api/) for a model that has only deployments of ours is answered here, and
LiteLLM's handler never runs, unless something is configured for the model that this route does not
carry (litellm_host/ways.py). Everything else goes LiteLLM's way unchanged, after the checks of
body_guard.py.
"""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from toolgate_core.errors import ToolgateError

from ..api.surface import Surface
from ..api.surfaces import SURFACES
from ..background import in_background
from ..context import RequestContext, context_of
from ..keys import metrics
from ..keys.header import key_of
from ..litellm_host import auth
from ..litellm_host.callbacks.configured import wants_events
from ..litellm_host.callbacks.request_events import RequestEvents
from ..litellm_host.context import carry
from ..litellm_host.state import model_routes
from ..request_fields import Fields
from ..state import service
from . import body, body_guard
from .connection import KeepAlive
from .exchange import Exchange
from .request_scope import check_route


class OwnRoute:
    """ASGI middleware, inside all others."""

    def __init__(self, app: ASGIApp) -> None:
        self._litellm = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._litellm(scope, receive, send)
            return
        context = context_of(scope)
        found = _surface_of(scope["path"]) if scope["method"] == "POST" else None
        try:
            if found is not None:
                context.authenticated = await _authenticated(scope, context)
            else:
                check_route(scope, key_of(scope["headers"]))
                if scope["method"] != "POST" or not body_guard.is_guarded(scope["path"]):
                    carry(context)
                    await self._litellm(scope, receive, send)
                    return
            messages = await body.read(receive)
            values = body.parse(scope, messages)
            surface, model = found or (None, "")
            model = model or _model(values)
            model_route = model_routes().find(model) if surface is not None else None
            if surface is None or model_route is None or model_route.reason is not None:
                streamed = body_guard.check(scope["path"], values)
        except ToolgateError as error:
            await refuse(error, found[0] if found else None)(scope, receive, send)
            if found is not None and wants_events():
                call = RequestEvents.of_refused(scope, found[0].call_type, context)
                in_background(call.failed("", error))
            return
        if surface is None or model_route is None or model_route.reason is not None:
            await self._pass_on(scope, body.again(messages, receive), send, streamed, context)
            return
        exchange = Exchange(surface, model_route, model, values, scope, messages)
        await _answer(exchange, surface.is_streamed(values), surface, receive, send)

    async def _pass_on(
        self, scope: Scope, receive: Receive, send: Send, streamed: bool, context: RequestContext
    ) -> None:
        carry(context)
        if not streamed:
            await self._litellm(scope, receive, send)
            return
        seconds = service().settings.keepalive_seconds
        async with KeepAlive(send, seconds, context, _error_event) as stream:
            await self._litellm(scope, receive, stream.send)


async def _answer(
    exchange: Exchange, streamed: bool, surface: Surface, receive: Receive, send: Send
) -> None:
    if not streamed:
        await exchange.run(receive, send)
        return
    seconds = service().settings.keepalive_seconds
    async with KeepAlive(send, seconds, exchange.context, surface.error_event) as stream:
        await exchange.run(receive, stream.send)


async def _authenticated(scope: Scope, context: RequestContext) -> bool:
    """Whether our own authentication let the request in; before its body is read. False where
    LiteLLM's configuration names another. Raises InvalidKey, RetiredKey and KeysUnavailable."""
    if not auth.is_ours():
        return False
    try:
        context.key = await auth.identify(key_of(scope["headers"]) or "", auth.address_of(scope))
    except ToolgateError as error:
        metrics.REFUSED.labels(error.code).inc()
        raise
    return True


def _surface_of(path: str) -> tuple[Surface, str] | None:
    """The surface that a path belongs to, and the model that the path names, if any."""
    for surface in SURFACES:
        model = surface.model_in_path(path)
        if model is not None:
            return surface, model
    return None


def _model(values: dict[str, Any]) -> str:
    return Fields(values).text("model") or ""


def refuse(error: ToolgateError, surface: Surface | None) -> JSONResponse:
    content = surface.error(error) if surface is not None else error.body()
    headers = {"retry-after": str(error.retry_after)} if error.retry_after else None
    return JSONResponse(content, error.status, headers)


def _error_event(data: bytes) -> bytes:
    return b"data: " + data.replace(b"\n", b" ") + b"\n\n"
