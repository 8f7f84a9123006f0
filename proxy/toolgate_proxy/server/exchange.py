"""One request on our own route: hooks → limits → deployment → parse → engine → response."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import orjson
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import (
    ClientDisconnected,
    GatewayMisconfigured,
    InternalFault,
    ToolgateError,
)

from ..api.shared.unknown import without_unknown
from ..api.surface import ANY_CLIENT, Stream, Surface, Whole, is_streamed
from ..background import in_background
from ..chat import failover
from ..context import context_of
from ..limits.admission import reserve
from ..litellm_host import auth as host_auth
from ..litellm_host.callbacks.request_events import RequestEvents
from ..litellm_host.context import identity_of
from ..litellm_host.deployments.model_route import ModelRoute
from ..litellm_host.deployments.router import Target
from ..litellm_host.errors import own_errors
from ..litellm_host.state import model_routes, selection
from ..routing.deployments import Deployment, Placement
from ..state import gateway
from .client import client_of, owner_of
from .logs.log_filters import frames
from .transport.body import RequestBody
from .transport.connection import EVENTS, Disconnect

logger = logging.getLogger("toolgate")

PARSED_IN_THREAD = 50_000
"""Size in bytes from which a body is converted in a thread. Canonical forms of large schemas take
a second."""

JSON = [(b"content-type", b"application/json")]


class Exchange:
    """One request for one of our models. `model` and `body` are as the client sent them."""

    def __init__(
        self,
        surface: Surface,
        model_route: ModelRoute,
        model: str,
        body: dict[str, Any],
        scope: Scope,
        sent: RequestBody,
    ) -> None:
        """`sent`: with its bytes only for authentication that reads the body."""
        self.context = context_of(scope)
        self.context.model = model
        self.context.call_id = uuid.uuid4().hex
        self._surface = surface
        self._model_route = model_route
        self._model = model
        self._body = {**body, "model": model}  # the model may come from the path
        self._scope = scope
        self._sent = sent
        self._client = ANY_CLIENT
        """The sender, once it is authenticated."""
        self._call: RequestEvents | None = None
        self._record: Whole | None = None
        """The whole response, collected for LiteLLM's log event."""
        self._request: ChatRequest | None = None
        self._open: Stream | None = None
        """The stream, if the client requested one."""
        self._begun = False
        self._end = b""
        """Last bytes of the stream."""

    async def run(self, receive: Receive, send: Send) -> None:
        """Sends the response or the error. If the client disconnects, the work is cancelled."""
        failed: ToolgateError | None = None
        async with Disconnect(receive) as disconnect, self._closing():
            try:
                await self._respond(send, disconnect)
            except ToolgateError as error:
                # With its traceback, it and the body would stay in memory until a collection.
                failed = error.with_traceback(None)
            except Exception as error:  # noqa: BLE001  a bug, which is logged
                logger.error("A request failed because of a bug in the gateway:\n%s", frames(error))
                failed = InternalFault("Internal error in the gateway. Retry the request.")
            if failed is not None:
                disconnect.ignore()
                sent = failed
                if self._call is not None and not self._begun:
                    sent = await self._call.replaced(failed)
                self.context.error_code = sent.code
                await self._send_error(sent, send)
        if self._call is not None:
            gone = ClientDisconnected("The client disconnected before the end of the response.")
            self._report(self._call, failed or (gone if disconnect.happened else None))

    @asynccontextmanager
    async def _closing(self) -> AsyncIterator[None]:
        """Ends the response for its other readers, whatever happened."""
        try:
            yield
        finally:
            if self._open is not None:
                self._open.close()

    async def _respond(self, send: Send, disconnect: Disconnect) -> None:
        here, context = gateway(), self.context
        target, request = await self._accepted()
        responding = failover.respond(
            here.engine, here.deployments, request, target.placement, self._alternatives, context
        )
        async with responding as (answer, events):
            seal = self._client.seal
            events = here.kept_reasoning.keeping(events, answer, self._model, seal)
            if self._call is not None:
                self._record = self._surface.whole(answer, self._model, self._client)
            if request.stream:
                await self._stream(answer, events, send, disconnect)
            else:
                await self._whole(answer, events, send, disconnect)
                return
        await send({"type": "http.response.body", "body": self._end, "more_body": False})

    async def _accepted(self, *, output: bool = True) -> tuple[Target, ChatRequest]:
        """The parsed request, after all checks that need no backend, and the deployment for it.
        `output`: whether the response has output tokens."""
        here, context = gateway(), self.context
        values = await self._admitted()
        self._client = client_of(self._scope, context)
        values, recalled = await self._surface.recall(values, self._client)
        if context.key is not None:
            await reserve(here.limiter, context, values, output=output)
        target = await self._chosen(values)
        values = self._surface.with_defaults(values, target.defaults)
        if here.settings.unknown_parameters == "ignore":
            values, context.ignored_parameters = without_unknown(values, self._surface.parameters)
        read = partial(
            here.reader.read,
            self._surface,
            values,
            context,
            model=target.placement.model,
            owner=owner_of(self._scope, context),
            client=self._client,
            recalled=recalled,
        )
        request = await asyncio.to_thread(read) if recalled or self._is_large() else read()
        self._request = request
        request = await here.kept_reasoning.restored(request, self._model, self._client.seal)
        return target, request

    def _is_large(self) -> bool:
        """Whether the body may take so long to parse that other requests should continue."""
        return self._sent.size > PARSED_IN_THREAD

    async def _admitted(self) -> dict[str, Any]:
        """Authenticates, runs LiteLLM's hooks, and returns the body as they left it."""
        request = Request(self._scope)
        context, own = self.context, self.context.authenticated
        if own:
            observed = self._model_route.events or self._model_route.hooks
            caller = host_auth.caller(context.key, self._scope["path"]) if observed else None
        else:
            request._body = self._sent.content
            self._sent.free()
            with own_errors():
                caller = await host_auth.litellm_caller(request, self._body)
            context.identity = identity_of(caller)
        if caller is not None:
            self._call = RequestEvents(request, caller, self._body, self._surface, context)
        if context.key is not None:
            await host_auth.check_model(context.key, self._model)
        if self._call is None or not (self._model_route.hooks or not own):
            return self._body
        with own_errors():
            changed = await self._call.before()
        return self._rerouted(changed)

    def _rerouted(self, changed: dict[str, Any]) -> dict[str, Any]:
        """`changed`: the body that the hooks returned. They may have changed its model."""
        model = changed.get("model")
        if model == self._model:
            return changed
        model_route = model_routes().find(model) if isinstance(model, str) else None
        if model_route is None or model_route.reason is not None:
            raise GatewayMisconfigured(
                f"An `async_pre_call_hook` changed the model to {model!r}, which the gateway's own "
                "route can't serve. Set TOOLGATE_ROUTE=litellm."
            )
        self._model_route, self._model = model_route, str(model)
        return changed

    async def _chosen(self, body: dict[str, Any]) -> Target:
        route = self._model_route
        if route.strategy is not None:
            owner = owner_of(self._scope, self.context)
            target = selection().choose(route.model, route.targets, route.strategy, body, owner)
        else:
            assert self._call is not None  # a model whose strategy is None has events
            with own_errors():
                target = await self._call.choose(
                    route.model, body.get("messages") or body.get("input")
                )
        if self._call is not None:
            self._call.chosen(target.row)
        return target

    def _alternatives(self, tried: Deployment) -> list[Placement]:
        rows = [target.row for target in self._model_route.targets]
        return selection().alternatives(rows, tried)

    async def _whole(
        self, answer: Any, events: failover.Events, send: Send, disconnect: Disconnect
    ) -> None:
        whole = self._record or self._surface.whole(answer, self._model, self._client)
        async for pieces in events:
            whole.add(pieces)
        self.context.complete = True
        await whole.keep()
        await self._send_json(whole.body(), send, disconnect)

    async def _send_json(self, shown: dict[str, Any], send: Send, disconnect: Disconnect) -> None:
        content = orjson.dumps(shown)
        disconnect.ignore()
        await self._begin(send, 200, JSON, len(content))
        await send({"type": "http.response.body", "body": content})

    async def _stream(
        self, answer: Any, events: failover.Events, send: Send, disconnect: Disconnect
    ) -> None:
        stream, record = self._surface.stream(answer, self._model, self._client), self._record
        self._open = stream
        async for pieces in events:
            if record is not None:
                record.add(pieces)
            if data := stream.events(pieces):
                self.context.note_event()
                if not self._begun:
                    await self._begin(send, 200, EVENTS)
                    if self._call is not None:
                        self._call.first_event()
                await send({"type": "http.response.body", "body": data, "more_body": True})
        self.context.complete = True
        disconnect.ignore()  # a client that leaves now must not cancel what is being stored
        await stream.keep()
        self._end = stream.end()

    async def _begin(
        self,
        send: Send,
        status: int,
        headers: list[tuple[bytes, bytes]],
        length: int | None = None,
    ) -> None:
        self._begun = True
        headers = [*headers, (b"x-litellm-call-id", (self.context.call_id or "").encode())]
        if length is not None:
            headers.append((b"content-length", str(length).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})

    async def _send_error(self, error: ToolgateError, send: Send) -> None:
        shown = self._surface.error(error, self._request, self.context.request_id)
        content = orjson.dumps(shown)
        if self._begun:
            self.context.failed = True
            stream = self._open
            event = stream.failed(shown["error"]) if stream else self._surface.error_event(content)
            await send({"type": "http.response.body", "body": event, "more_body": False})
            return
        headers = [*JSON]
        if error.retry_after:
            headers.append((b"retry-after", str(error.retry_after).encode()))
        await self._begin(send, error.status, headers, len(content))
        await send({"type": "http.response.body", "body": content})

    def _report(self, call: RequestEvents, failed: ToolgateError | None) -> None:
        """Sends LiteLLM's log event in the background. A stream that the client closed counts as a
        success, as in LiteLLM."""
        left = isinstance(failed, ClientDisconnected) and self._begun
        if self._record is not None and (failed is None or left):
            streamed = is_streamed(self._body)
            body = self._record.body()
            in_background(call.succeeded(self._model_route.model, body, stream=streamed))
        elif failed is not None:
            in_background(call.failed(self._model_route.model, failed))
