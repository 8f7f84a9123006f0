"""One request to an API, from its key to the bytes of its response.

    key → body → chat request → lease of limits → deployment → events → bytes

Each step is a call into the room of its name. A request for a model that LiteLLM serves leaves
after its body was read. A request to count tokens has another last step. If the model fails before
the first byte, the last steps are repeated with its fallbacks.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from starlette.types import Receive, Scope, Send

from toolgate_core.errors import ClientDisconnected, ToolgateError

from .api.surface import Client, Counting, Surface, is_streamed
from .context import RequestContext, context_of
from .litellm_host.callbacks.host_side import HostSide
from .litellm_host.callbacks.request_events import report_refused
from .litellm_host.offered_tools import with_tools
from .server import incoming
from .server.background.run import Run
from .server.client import BACKGROUND, client_of
from .server.forwarding import Forwarding
from .server.incoming import Arrived
from .server.logs.log_filters import as_own_error
from .server.sending import Sending
from .server.transport.connection import Disconnect, Reply
from .state import gateway


@dataclass(frozen=True)
class Pipeline:
    """ASGI app for the paths of one API."""

    surface: Surface
    litellm: Forwarding
    """Answers the requests for models that are not ours, or not on our own route."""
    counting: Counting | None = None
    """The operation, if the requests count tokens instead of generating them."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        context = context_of(scope)
        context.form = self.surface
        reply = Reply(send, context)
        try:
            sent = await incoming.arrive(scope, receive, context)
            # A request of the background comes here a second time, on its own.
            waits = self.counting is None and BACKGROUND not in scope
            begins = waits and self.surface.runs_in_background(sent.values)
            if sent.route is None:
                streamed = await self.litellm.check_model(scope, sent.values, sent.asker)
            elif not begins:
                sent = sent.without_credentials(scope)
        except ToolgateError as error:
            # With its traceback, it and the body would stay in memory until a collection.
            await reply.fail(error.with_traceback(None))
            report_refused(self.surface, scope, context, error)
            return
        if sent.route is None:
            await self.litellm.pass_on(scope, sent.body.again(receive), send, streamed=streamed)
            return
        if begins:
            sent.body.free()
            await Run(self, scope, sent.values, sent.body.size)(scope, receive, send)
            return
        content = b"" if context.caller.authenticated else sent.body.content
        sent.body.free()
        body = sent.values if self.counting is None else self.counting.prepared(sent.values)
        body = {**body, "model": context.model or ""}  # which may come from the path
        host = HostSide(self.surface, scope, context, sent.route, sent.asker, body)
        exchange = _Exchange(self, scope, context, host, reply, content, sent)
        is_stream = waits and is_streamed(body)
        await exchange.run(receive, is_stream=is_stream)


@dataclass(frozen=True)
class _Exchange:
    """A request for one of our own models."""

    pipeline: Pipeline
    scope: Scope
    context: RequestContext
    host: HostSide
    reply: Reply
    content: bytes
    """The bytes of the body, if another authentication than ours may read them."""
    sent: Arrived

    async def run(self, receive: Receive, *, is_stream: bool) -> None:
        """Send the response or the error. If the client disconnects, the work is cancelled."""
        self.context.call_id = uuid.uuid4().hex
        self.reply.headers = ((b"x-litellm-call-id", self.context.call_id.encode()),)
        seconds, comment = gateway().settings.keepalive_seconds, self.pipeline.surface.keep_alive
        failed: ToolgateError | None = None
        async with (
            self.reply.kept_alive(seconds, comment) if is_stream else nullcontext(),
            Disconnect(receive) as disconnect,
        ):
            try:
                await self._respond(disconnect)
            except Exception as error:  # noqa: BLE001  a bug is logged
                failed = as_own_error(error)
            if failed is not None:
                disconnect.ignore()
                output = self.reply.has_output
                await self.reply.fail(failed if output else await self.host.replaced(failed))
        if failed is None and disconnect.happened:
            failed = ClientDisconnected("The client disconnected before the end of the response.")
        self.host.report(failed, begun=self.reply.has_output)

    async def _respond(self, disconnect: Disconnect) -> None:
        with nullcontext() if self.context.caller.authenticated else disconnect.held():
            values = await self.host.admitted(self.content)
        surface, generates = self.pipeline.surface, self.pipeline.counting is None
        client = client_of(self.scope, self.context)
        values, recalled = await surface.recall(values, client)
        if self.context.caller.key is not None:
            sent = gateway().reader.searching(surface, values)
            await self.context.admit(gateway().limiter, sent, output=generates)
        client = await with_tools(client, values, self.host, self.sent.credentials)
        await self._generate(values, client, recalled, disconnect)

    async def _generate(
        self, values: Mapping[str, Any], client: Client, recalled: int, disconnect: Disconnect
    ) -> None:
        """Respond with the model, or with its fallbacks."""
        host, counts = self.host, self.pipeline.counting is not None
        if host.guard is not None and not counts:
            host.guard.start()
        while True:
            try:
                await self._attempt(values, client, recalled, disconnect)
            except ToolgateError as error:
                if counts or self.reply.has_output:
                    raise
                await host.fall_back(error)
                self.reply.restart()
            else:
                return

    async def _attempt(
        self, values: Mapping[str, Any], client: Client, recalled: int, disconnect: Disconnect
    ) -> None:
        """Respond with the model at which the request is."""
        host, surface, counting = self.host, self.pipeline.surface, self.pipeline.counting
        if host.is_litellms:
            reveal = self.sent.credentials.revealed
            await self.pipeline.litellm.fall_back(
                self.scope, surface, host, client, self.reply, disconnect, reveal
            )
            return
        body = await host.admitted_again(values)
        shown = gateway().reader.searching(surface, body)
        async with host.deployment(shown, client.owner) as target:
            body = await host.sent_to(target, body)
            request = self.reply.request = await incoming.chat_request(
                surface,
                body,
                self.context,
                target,
                client,
                model=host.model,
                recalled=recalled,
                size=self.sent.body.size,
            )
            sending = Sending(host, self.reply, self.context, disconnect)
            if counting is None:
                await sending.respond(surface, request, body, client, target.placement)
            else:
                await sending.count(counting, request, target.placement)
