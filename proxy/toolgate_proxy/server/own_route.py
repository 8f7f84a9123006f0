"""Toolgate's own route in LiteLLM's app.

The route handles requests at the paths of an API surface (api/) for models that have only Toolgate
deployments. LiteLLM's handler does not run for them. All other requests go to LiteLLM unchanged,
after the checks in body_guard.py. So do requests for a model with a configuration that this route
does not support (litellm_host/deployments/model_route.py).
"""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from toolgate_core.errors import ModelNotFound, ToolgateError

from ..api.surface import Counting, Surface, data_event, is_streamed
from ..api.surfaces import SURFACES
from ..background import in_background
from ..context import RequestContext, context_of
from ..litellm_host.callbacks.configured import wants_events
from ..litellm_host.callbacks.request_events import RequestEvents
from ..litellm_host.context import carry
from ..litellm_host.deployments.known_models import check_exists, model_not_found
from ..litellm_host.state import model_routes
from ..page import files
from ..request_fields import Fields
from ..state import gateway
from . import absent_routes, body_guard, model_retrieval, readiness
from .authorization import authenticate, authorize, route_path
from .client import owner_of_body
from .exchange import Exchange
from .refusal import form_of, refuse
from .stored_responses import operations
from .stored_responses.routes import Operation, operation_of
from .token_count import TokenCount
from .traffic.recording import noting_events
from .transport import body
from .transport.body import READ, RESERVED, RequestBody
from .transport.connection import KeepAlive


class OwnRoute:
    """ASGI middleware. LiteLLM's own middleware that must see our responses runs outside it."""

    def __init__(self, app: ASGIApp) -> None:
        self._litellm = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._litellm(scope, receive, send)
            return
        if gateway().settings.page and (page := files.answer(scope, route_path(scope))) is not None:
            await page(scope, receive, send)
            return
        context = context_of(scope)
        form = form_of(scope, context)
        posted = scope["method"] == "POST"
        counted = _counting_of(scope["path"]) if posted else None
        found = (counted[0], "") if counted else _surface_of(scope["path"]) if posted else None
        try:
            if found is not None:
                await authenticate(scope, context)
            elif (wanted := operation_of(scope["method"], route_path(scope))) is not None:
                await authenticate(scope, context)
                if not isinstance(wanted, Operation):
                    raise wanted
                response = await operations.answer(wanted, scope, context)
                await response(scope, receive, send)
                return
            elif (closed := absent_routes.batches(route_path(scope))) is not None:
                await authenticate(scope, context)
                raise closed
            elif (repeated := absent_routes.repeated_path(route_path(scope))) is not None:
                form = form_of({**scope, "path": repeated.path}, context)
                await authenticate(scope, context)
                raise repeated.error()
            else:
                await authorize(scope, context)
                if (absent := absent_routes.without_database(route_path(scope))) is not None:
                    raise absent
                if (probed := readiness.answer(scope)) is not None:
                    await probed(scope, receive, send)
                    return
                shown = await model_retrieval.answer(scope, context, form)
                if shown is not None:
                    await JSONResponse(shown)(scope, receive, send)
                    return
            sent = await _body(scope, receive, context)
            if found is None:
                lacking = absent_routes.without_provider(scope, route_path(scope), sent.content)
                if lacking is not None:
                    raise lacking
            guarded = posted and body_guard.is_guarded(scope["path"])
            if found is None and not guarded:
                carry(context)
                await self._litellm(scope, sent.again(receive), send)
                return
            values = await sent.parsed(scope, body_guard.check_bounds)
            surface, model = found or (None, "")
            model = model or _model(values)
            body_guard.check_model_name(model)
            context.model = model or None
            model_route = model_routes().find(model) if surface is not None else None
            if surface is None or model_route is None or model_route.reason is not None:
                streamed = body_guard.check(scope["path"], values)
                if surface is not None and model_route is None and context.authenticated:
                    await check_exists(model, context.key)
        except ToolgateError as raised:
            # With its traceback, the error and the body would stay in memory until a collection.
            error = raised.with_traceback(None)
            if isinstance(error, ModelNotFound) and context.authenticated and context.model:
                error = await model_not_found(context.model, context.key)
            context.error_code = error.code
            await refuse(error, form, context.request_id)(scope, receive, send)
            if found is not None and wants_events():
                call = RequestEvents.of_refused(scope, found[0], context)
                in_background(call.failed("", error))
            return
        if surface is None or model_route is None or model_route.reason is not None:
            await self._pass_on(scope, sent.again(receive), send, streamed, context)
            return
        if context.authenticated:
            sent.free()
        if counted is not None:
            count = TokenCount(*counted, model_route, model, values, scope, sent)
            await count.run(receive, send)
            return
        exchange = Exchange(surface, model_route, model, values, scope, sent)
        await _answer(exchange, is_streamed(values), surface, receive, send)

    async def _pass_on(
        self, scope: Scope, receive: Receive, send: Send, streamed: bool, context: RequestContext
    ) -> None:
        carry(context)
        if not streamed:
            await self._litellm(scope, receive, noting_events(send, context))
            return
        seconds = gateway().settings.keepalive_seconds
        async with KeepAlive(send, seconds, context, data_event) as stream:
            await self._litellm(scope, receive, noting_events(stream.send, context))


async def _answer(
    exchange: Exchange, streamed: bool, surface: Surface, receive: Receive, send: Send
) -> None:
    if not streamed:
        await exchange.run(receive, send)
        return
    seconds = gateway().settings.keepalive_seconds
    async with KeepAlive(
        send, seconds, exchange.context, surface.error_event, surface.keep_alive
    ) as stream:
        await exchange.run(receive, stream.send)


async def _body(scope: Scope, receive: Receive, context: RequestContext) -> RequestBody:
    """Raises RequestTooLarge, RequestTimeout, UnsupportedEncoding, RateLimited and
    ClientDisconnected. LiteLLM's routes read bodies whole as well, but without limits."""
    here, reservation = gateway(), None
    if READ in scope:
        context.on_admitted = scope[RESERVED]
        # The scope lives as long as the response.
        sent: RequestBody = scope.pop(READ)
        return sent
    if (owner := owner_of_body(scope, context)) is not None:
        reservation = here.bodies.open(owner)
        context.on_admitted = reservation.close
    return await body.read(
        scope,
        receive,
        limit=here.settings.max_body_bytes,
        seconds=here.settings.body_timeout,
        reservation=reservation,
    )


def _counting_of(path: str) -> tuple[Surface, Counting] | None:
    """The API surface whose tokens are counted at `path`."""
    for surface in SURFACES:
        if surface.counting is not None and surface.counting.path.fullmatch(path):
            return surface, surface.counting
    return None


def _surface_of(path: str) -> tuple[Surface, str] | None:
    """The API surface that serves `path`, and the model in the path ("" if it has none)."""
    for surface in SURFACES:
        model = surface.model_in_path(path)
        if model is not None:
            return surface, model
    return None


def _model(values: dict[str, Any]) -> str:
    return Fields(values).text("model") or ""
