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
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from starlette.types import Receive, Scope, Send

from toolgate_core.errors import ClientDisconnected, ToolgateError

from .api.surface import Client, Counting, Surface, is_streamed
from .chat import failover
from .context import RequestContext, context_of
from .litellm_host.callbacks.host_side import HostSide
from .litellm_host.callbacks.request_events import report_refused
from .litellm_host.callbacks.response_cache import kept_answers
from .litellm_host.deployments.own_route import asked, own_route
from .litellm_host.deployments.router import Target
from .litellm_host.mcp import listings, mcp_entries
from .litellm_host.mcp_credentials import McpCredentials, without_credentials
from .litellm_host.web_search import permitted_search, search_tools
from .server import incoming
from .server.authorization import check_key
from .server.background_request import BackgroundRequest
from .server.client import BACKGROUND, client_of, turn_of
from .server.forwarding import Forwarding
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
        reply, credentials = Reply(send, context), McpCredentials()
        try:
            await check_key(scope, context)
            sent = await incoming.read(scope, receive, context)
            values = await incoming.values_of(sent, scope, context)
            model = context.model or ""
            name, asker = await asked(scope, model)
            route = own_route(name, asker)
            if route is None:
                streamed = await self.litellm.check_model(scope, values, asker)
            elif self.counting is not None or not self._begins_background(scope, values):
                values = credentials.hidden(values)
                credentials.take(scope["headers"])
        except ToolgateError as error:
            # With its traceback, it and the body would stay in memory until a collection.
            await reply.fail(error.with_traceback(None))
            report_refused(self.surface, without_credentials(scope), context, error)
            return
        if route is None:
            await self.litellm.pass_on(scope, sent.again(receive), send, streamed=streamed)
            return
        if self.counting is None and self._begins_background(scope, values):
            sent.free()
            await BackgroundRequest(self, scope, values, sent.size).run(receive, send)
            return
        content = b"" if context.authenticated else sent.content
        sent.free()
        body = values if self.counting is None else self.counting.prepared(values)
        # The model may come from the path.
        seen = without_credentials(scope)
        host = HostSide(self.surface, seen, context, route, asker, {**body, "model": model})
        exchange = _Exchange(self, scope, context, host, reply, content, sent.size, credentials)
        waits = self.counting is None and BACKGROUND not in scope
        await exchange.run(receive, is_stream=is_streamed(values) and waits)

    def _begins_background(self, scope: Scope, values: Mapping[str, Any]) -> bool:
        return BACKGROUND not in scope and self.surface.runs_in_background(values)


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
    size: int
    """Of the body, in bytes."""
    credentials: McpCredentials

    async def run(self, receive: Receive, *, is_stream: bool) -> None:
        """Send the response or the error. If the client disconnects, the work is cancelled."""
        self.context.call_id = uuid.uuid4().hex
        self.reply.headers = ((b"x-litellm-call-id", self.context.call_id.encode()),)
        seconds = gateway().settings.keepalive_seconds if is_stream else 0.0
        failed: ToolgateError | None = None
        async with (
            self.reply.kept_alive(seconds, self.pipeline.surface.keep_alive),
            Disconnect(receive) as disconnect,
            self.reply,
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
        with nullcontext() if self.context.authenticated else disconnect.held():
            values = await self.host.admitted(self.content)
        adds = self.pipeline.counting is None
        turn = turn_of(self.scope, self.context) if adds else None
        async with turn or nullcontext():
            client = client_of(self.scope, self.context, turn)
            values, recalled = await self.pipeline.surface.recall(values, client)
            if self.context.key is not None:
                sent = gateway().reader.searching(self.pipeline.surface, values)
                await gateway().limiter.reserve(self.context, sent, output=adds)
            if values.get("tools") and search_tools():
                client = replace(client, search_engine=await permitted_search(self.host.caller))
            if entries := mcp_entries(values):
                listed = await listings(entries, self.host.caller, self.credentials)
                client = replace(client, mcp=listed)
            await self._generate(values, client, recalled, disconnect)

    async def _generate(
        self, values: Mapping[str, Any], client: Client, recalled: int, disconnect: Disconnect
    ) -> None:
        """Respond with the model, or with its fallbacks."""
        host, counting = self.host, self.pipeline.counting
        if host.guard is not None and counting is None:
            host.guard.start()
        while True:
            try:
                if host.is_litellms:
                    await self.pipeline.litellm.fall_back(
                        self.scope,
                        self.pipeline.surface,
                        host,
                        client,
                        self.reply,
                        disconnect,
                        self.credentials.revealed,
                    )
                else:
                    body = await host.admitted_again(values)
                    begins = gateway().reader.searching(self.pipeline.surface, body)
                    async with host.deployment(begins, client.owner) as target:
                        sent = await host.sent_to(target, body)
                        await self._attempt(target, sent, client, recalled, disconnect)
            except ToolgateError as error:
                if counting is not None or self.reply.has_output:
                    raise
                await host.fall_back(error)
                self.reply.restart()
            else:
                return

    async def _attempt(
        self,
        target: Target,
        values: Mapping[str, Any],
        client: Client,
        recalled: int,
        disconnect: Disconnect,
    ) -> None:
        """Respond with one of our models."""
        here, context, host = gateway(), self.context, self.host
        surface, counting = self.pipeline.surface, self.pipeline.counting
        request = self.reply.request = await incoming.chat_request(
            surface,
            values,
            context,
            target,
            client,
            model=host.model,
            recalled=recalled,
            size=self.size,
        )
        if counting is None:
            await surface.accepted(request, host.model, client)
        places = (here.deployments, request, target.placement, host.alternatives)
        if counting is not None:
            tokens = await failover.count(here.engine, *places, context)
            context.note_tokens(0, 0, complete=True)  # nothing was computed
            disconnect.ignore()
            await self.reply.json(counting.body(tokens, context.cleared_tokens))
            return
        sending = Sending(host, self.reply, context, disconnect)
        answers = kept_answers(surface.call_type, values, client.seal)
        engine = here.engine.keeping(answers)
        async with failover.respond(engine, *places, context) as (answer, events):
            await host.answers(stream=request.stream)
            events = here.kept_reasoning.keeping(events, answer, host.model, client.seal)
            whole = partial(surface.whole, answer, host.model, client)
            if not request.stream:
                await sending.whole(whole(), events, request)
                return
            host.response.begin(whole)
            if host.guard is None:
                stream = surface.stream(answer, host.model, client)
                last = await sending.stream(stream, events)
            else:
                stream = surface.stream(answer, host.model, client.without_store())
                last = await sending.guarded(host.guard, stream, events, request)
        await self.reply.end(last)
