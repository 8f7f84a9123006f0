"""LiteLLM's app behind the gateway's checks: the default of all paths.

It answers requests at other paths than the gateway's own, and those for models of other providers.
So does it for a model with a configuration that our own route does not support
(litellm_host/model_route.py). LiteLLM gets the bytes of the body unchanged.

It also answers a request for one of our models with a fallback of another provider. The pipeline
tries further fallbacks, so LiteLLM gets none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

import orjson
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolgate_core.errors import ModelNotFound

from ..api.shared.options import LITELLM
from ..api.surface import Client, is_streamed
from ..context import MATCH, RequestContext, context_of, model_in_path
from ..litellm_host.admission import Admission
from ..litellm_host.auth import check_exists, model_not_found
from ..litellm_host.context import carry
from ..litellm_host.errors import HostRefused
from ..litellm_host.router import Asker
from ..state import gateway
from . import absent_routes, body_guard, incoming
from .authorization import authorize
from .body import RequestBody
from .connection import Disconnect, Reply
from .traffic import noting_events

Answer = Callable[[Scope, RequestContext], Awaitable[ASGIApp | None]]
"""Returns the response to a request; None: LiteLLM answers it. Raises ToolgateError."""
FALLBACKS = "fallbacks"
NO_FURTHER = {"disable_fallbacks": True}
LITELLMS = frozenset(row.name for row in LITELLM)
"""Parameters that LiteLLM may get from requests for our models."""
REPLACED = (b"content-length", b"content-encoding", b"x-litellm-call-id")
PARSED = "parsed_body"
"""Key in the ASGI scope of the body that LiteLLM has read."""


class Forwarding:
    """ASGI app."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the key and the body, and pass the request on. Raise ToolgateError."""
        context = context_of(scope)
        await authorize(scope, context)
        sent = await incoming.read(scope, receive, context)
        if (lacking := absent_routes.without_provider(scope)) is not None:
            raise lacking
        if scope["method"] != "POST" or not body_guard.is_guarded(scope["path"]):
            await self.host(scope, sent.again(receive), send)
            return
        values = await incoming.values_of(sent, scope, context)
        await self.check(scope, values)
        streamed = is_streamed(values)
        del values  # which takes memory while LiteLLM responds
        await self.pass_on(scope, sent.again(receive), send, streamed=streamed)

    def unless(self, answer: Answer) -> ASGIApp:
        """Return an app whose response is that of `answer`, if there is one."""

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            response = await answer(scope, context_of(scope))
            await (self if response is None else response)(scope, receive, send)

        return app

    async def check_model(self, scope: Scope, values: dict[str, Any], asker: Asker) -> None:
        """Check a request at a path of our own for a model that LiteLLM serves. Raise as `check`,
        and ModelNotFound."""
        context = context_of(scope)
        await self.check(scope, values, asker)
        if context.caller.authenticated:
            await check_exists(context.model or "", context.caller.key)

    async def check(self, scope: Scope, values: dict[str, Any], asker: Asker | None = None) -> None:
        """Check a body that names a model. Raise InvalidRequest, ModelNotFound and
        UnsupportedParameter."""
        context = context_of(scope)
        try:
            body_guard.check(scope["path"], values, asker)
        except ModelNotFound:
            if context.caller.authenticated and context.model:
                raise await model_not_found(context.model, context.caller.key) from None
            raise

    async def pass_on(self, scope: Scope, receive: Receive, send: Send, *, streamed: bool) -> None:
        """Pass a request for a model on. A stream of chat completions is kept alive while it is
        silent."""
        context = context_of(scope)
        if not streamed or body_guard.CHAT not in scope["path"]:
            await self.host(scope, receive, noting_events(send, context))
            return
        reply = Reply(send, context)
        async with reply.kept_alive(gateway().settings.keepalive_seconds):
            await self.host(scope, receive, noting_events(reply.forward, context))

    async def fall_back(
        self,
        host: Admission,
        client: Client,
        reply: Reply,
        disconnect: Disconnect,
        as_sent: Callable[[Mapping[str, Any]], dict[str, Any]],
    ) -> None:
        """Answer a request for one of our models with its fallback of another provider. LiteLLM's
        hooks get it `as_sent`. Raise ToolgateError if it is refused or fails before the response
        begins."""
        context, fallbacks, surface = host.context, host.fallbacks, host.surface
        sent, _ = await surface.recall(host.body, client)
        values = as_sent(fallbacks.for_litellm(surface.portable(sent)))
        scope = scope_of(host.scope, context, fallbacks.model)
        checked = {name: value for name, value in values.items() if name not in LITELLMS}
        await self.check(scope, checked, fallbacks.asker)
        kept = {name: value for name, value in values.items() if name != FALLBACKS}
        body = RequestBody.of_values({**kept, **NO_FURTHER}, 0)
        status, refusal = 200, b""

        async def send(message: Message) -> None:
            nonlocal status, refusal
            status = message.get("status", status)
            if status >= 400:
                refusal += message.get("body", b"")
                return
            if message["type"] == "http.response.body":
                reply.has_output = True
                if not message.get("more_body", False):
                    disconnect.ignore()
            await reply.forward(message)

        await self.host(scope, body.again(_receive), noting_events(send, context))
        if status >= 400:
            raise HostRefused(_message(refusal), status)

    async def answered(self, scope: Scope) -> Response:
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

        await self.host(scope, receive, send)
        return response

    async def host(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let LiteLLM's app answer a request."""
        carry(context_of(scope))
        await self._app(scope, receive, send)


def scope_of(scope: Scope, context: RequestContext, model: str) -> Scope:
    """Return the scope of the request to the other model, with the same id."""
    headers = [each for each in scope["headers"] if each[0] not in REPLACED]
    headers.append((b"x-litellm-call-id", (context.call_id or "").encode()))
    path = str(scope["path"])
    if model_in_path(scope):
        begin, end = scope[MATCH].span("model")
        path = path[:begin] + model + path[end:]
    made = {name: value for name, value in scope.items() if name != PARSED}
    return {**made, "headers": headers, "path": path, "raw_path": quote(path).encode()}


async def _receive() -> Message:
    """Wait for ever: if the client disconnects, the request is cancelled."""
    await asyncio.Event().wait()
    raise AssertionError


def _message(refusal: bytes) -> str:
    try:
        return str(orjson.loads(refusal)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return "LiteLLM returned an error."
