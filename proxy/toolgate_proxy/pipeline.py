"""One request to an API, from its key to the bytes of its response.

    key → body → LiteLLM's side → limits → deployment → chat request → events → bytes

Each step is a call into the room of its name. A request for a model that LiteLLM serves leaves
after its body was read. A request to count tokens has another last step. If the model fails before
the first byte, the last steps are repeated with its fallbacks.
"""

from __future__ import annotations

from dataclasses import dataclass

from starlette.types import Receive, Scope, Send

from toolgate_core.errors import ToolgateError

from .api.surface import Counting, Surface, is_streamed
from .context import context_of
from .litellm_host.callbacks.request_events import report_refused
from .litellm_host.host_side import HostSide
from .server import fallback, incoming
from .server.background import BackgroundRun
from .server.connection import Disconnect, Reply
from .server.forwarding import Forwarding
from .server.incoming import CheckedRequest, Incoming
from .server.sending import Sending, answer


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
            sent = await incoming.read_request(self.surface, self.counting, scope, receive, context)
            if sent.route is None:
                await self.litellm.check_model(scope, context, sent.values, sent.sender)
        except ToolgateError as error:
            # With its traceback, it and the body would stay in memory until a collection.
            await reply.fail(error.with_traceback(None))
            report_refused(self.surface, scope, context, error)
            return
        if sent.route is None:
            again, streamed = sent.body.again(receive), is_streamed(sent.values)
            await self.litellm.pass_on(scope, context, again, send, streamed=streamed)
        elif sent.begins:
            run = BackgroundRun(self, scope, context, sent.values, sent.body.size)
            await run(scope, receive, send)
        else:
            host = HostSide(self.surface, scope, context, sent.route, sent.sender, sent.values)
            exchange = _Exchange(self, host, reply, sent)
            await answer(exchange.respond, receive, reply, host, sent.comment)


@dataclass(frozen=True)
class _Exchange:
    """A request for one of our own models."""

    pipeline: Pipeline
    host: HostSide
    reply: Reply
    sent: Incoming

    async def respond(self, disconnect: Disconnect) -> None:
        """Respond with the model, or with its fallbacks. Raise ToolgateError."""
        counts = self.pipeline.counting is not None
        request = await incoming.check_request(self.host, self.sent, disconnect, output=not counts)
        while True:
            try:
                await self._attempt(request, disconnect)
            except ToolgateError as error:
                if counts or self.reply.has_output:
                    raise
                await self.host.fall_back(error)
                self.reply.restart()
            else:
                return

    async def _attempt(self, request: CheckedRequest, disconnect: Disconnect) -> None:
        """Respond with the model at which the request is."""
        host, reply, counting = self.host, self.reply, self.pipeline.counting
        if host.fallbacks.is_litellms:
            litellm, reveal = self.pipeline.litellm, self.sent.as_sent
            await fallback.answer(litellm, host, request.client, reply, disconnect, reveal)
            return
        body = await host.observer.at_model(host.fallbacks.adapt(request.values))
        async with host.deployment(body, request.client.owner) as target:
            size, sending = self.sent.body.size, Sending(host, reply, disconnect, target.placement)
            writer, body = await incoming.chat_request(host, body, target, request, size)
            reply.writer = writer
            if counting is None:
                await sending.respond(writer, body, request.client)
            else:
                await sending.count(counting, writer.request)
