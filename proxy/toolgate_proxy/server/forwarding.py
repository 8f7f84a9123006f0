"""LiteLLM's app behind the gateway's checks: the default of all paths.

It answers requests at other paths than the gateway's own, and those for models of other providers.
So does it for a model with a configuration that our own route does not support
(litellm_host/routing/model_route.py). LiteLLM gets the bytes of the body unchanged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolgate_core.errors import ModelNotFound

from ..api.surface import is_streamed
from ..context import RequestContext, context_of, route_path
from ..litellm_host.auth import check_exists, model_not_found
from ..litellm_host.context import carry
from ..litellm_host.routing.router import Sender
from ..state import gateway
from . import absent_routes, body_guard, incoming
from .authorization import authorize
from .connection import Reply
from .traffic import noting_events

Answer = Callable[[Scope, RequestContext], Awaitable[ASGIApp | None]]
"""Returns the response to a request; None: LiteLLM answers it. Raises ToolgateError."""


class Forwarding:
    """ASGI app that passes requests on to LiteLLM's app."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the key and the body, and pass the request on. Raise ToolgateError."""
        context = context_of(scope)
        await authorize(scope, context)
        sent = await incoming.read(scope, receive, context)
        lacking = absent_routes.without_provider(scope, sent.content)
        if lacking is not None:
            raise lacking
        if scope["method"] != "POST" or not body_guard.is_guarded(scope["path"]):
            await self.host(scope, context, sent.again(receive), send)
            return
        values = await incoming.values_of(sent, scope, context)
        await self.check(scope, context, values, None)
        streamed = is_streamed(values)
        del values  # which takes memory while LiteLLM responds
        await self.pass_on(scope, context, sent.again(receive), send, streamed=streamed)

    def unless(self, answer: Answer) -> ASGIApp:
        """Return an app whose response is that of `answer`, if there is one."""

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            response = await answer(scope, context_of(scope))
            await (self if response is None else response)(scope, receive, send)

        return app

    async def check_model(
        self, scope: Scope, context: RequestContext, values: dict[str, Any], sender: Sender
    ) -> None:
        """Check a request at a path of our own for a model that LiteLLM serves. Raise as `check`,
        and ModelNotFound."""
        await self.check(scope, context, values, sender)
        if context.caller.authenticated:
            await check_exists(context.model or "", context.caller.key)

    async def check(
        self, scope: Scope, context: RequestContext, values: dict[str, Any], sender: Sender | None
    ) -> None:
        """Check a body that names a model. `sender`: None if it is unknown. Raise
        InvalidRequest, ModelNotFound and UnsupportedParameter."""
        try:
            body_guard.check(route_path(scope), values, sender)
        except ModelNotFound:
            if context.caller.authenticated and context.model:
                raise await model_not_found(context.model, context.caller.key) from None
            raise

    async def pass_on(
        self, scope: Scope, context: RequestContext, receive: Receive, send: Send, *, streamed: bool
    ) -> None:
        """Pass a request for a model on. Keep a silent stream of chat completions alive."""
        if not streamed or body_guard.CHAT not in scope["path"]:
            await self.host(scope, context, receive, noting_events(send, context))
            return
        reply = Reply(send, context)
        async with reply.kept_alive(gateway().settings.keepalive_seconds):
            await self.host(scope, context, receive, noting_events(reply.forward, context))

    async def answered(self, scope: Scope, context: RequestContext) -> Response:
        """Return LiteLLM's response to a request without a body, whose key was checked."""
        response = Response()
        response.raw_headers = []

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                response.status_code = message["status"]
                response.raw_headers = [*message["headers"]]
            response.body = bytes(response.body) + message.get("body", b"")

        await self.host(scope, context, receive, send)
        return response

    async def host(
        self, scope: Scope, context: RequestContext, receive: Receive, send: Send
    ) -> None:
        """Let LiteLLM's app answer a request."""
        carry(context)
        await self._app(scope, receive, send)
