"""A request on its way in: its key, its body, the model that it names, and the chat request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.types import Receive, Scope

from ..api.shared.parameter import without_unknown
from ..api.surface import Client, Counting, Surface, Writer, is_streamed
from ..context import RequestContext, model_in_path
from ..features.litellm_all import parts_of
from ..features.litellm_part import FeaturePart
from ..litellm_host.auth import model_and_sender
from ..litellm_host.host_side import HostSide
from ..litellm_host.routing.model_route import ModelRoute, own_route
from ..litellm_host.routing.router import Sender, Target
from ..request_fields import Fields
from ..state import gateway
from . import body
from .authorization import BACKGROUND, check_key, client_of, owner_of_body
from .body import READ, RESERVED, RequestBody
from .connection import Disconnect

PARSED_IN_THREAD = 50_000
"""Size in bytes from which a body is converted in a thread. Large schemas take a second."""


@dataclass(frozen=True)
class Incoming:
    """A request at a path of an API, whose key was checked and whose body was read."""

    body: RequestBody
    values: dict[str, Any]
    """Its parameters, with placeholders for what only features may see."""
    sender: Sender
    route: ModelRoute | None
    """None: LiteLLM's handler serves the model."""
    begins: bool = False
    """The response is generated in the background."""
    content: bytes = b""
    """The bytes of the body, if another authentication than ours may read them."""
    comment: bytes | None = None
    """What keeps the stream alive; None: the response is whole."""
    parts: Sequence[FeaturePart] = ()
    """LiteLLM's parts of the features, if it may use any."""

    def as_sent(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return parameters without placeholders, for LiteLLM's handler."""
        for part in self.parts:
            values = part.reveal(values)
        return values


@dataclass(frozen=True)
class CheckedRequest:
    """A request within the limits of its key. `values`: as hooks left them, with the earlier
    turns that are stored, `recalled` of them."""

    values: Mapping[str, Any]
    client: Client
    recalled: int


async def read_request(
    surface: Surface,
    counting: Counting | None,
    scope: Scope,
    receive: Receive,
    context: RequestContext,
) -> Incoming:
    """Check the key, and read the body of a request that names a model. `counting`: the operation,
    if the request counts tokens. Raise ToolgateError."""
    await check_key(scope, context)
    body = await read(scope, receive, context)
    values = await values_of(body, scope, context)
    model, sender = await model_and_sender(context.model or "", context.caller)
    if (route := own_route(model, sender)) is None:
        return Incoming(body, values, sender, None)
    # A request of the background comes here a second time, on its own.
    waits = counting is None and BACKGROUND not in scope
    if waits and surface.runs_in_background(values):
        body.free()
        return Incoming(body, values, sender, route, begins=True)
    parts = parts_of(values)
    for part in parts:
        values = part.hide(values, scope["headers"])
    content = b"" if context.caller.authenticated else body.content
    body.free()
    comment = surface.keep_alive if waits and is_streamed(values) else None
    values = values if counting is None else counting.prepared(values)
    values = {**values, "model": context.model or ""}  # which may come from the path
    return Incoming(body, values, sender, route, False, content, comment, parts)


async def check_request(
    host: HostSide, sent: Incoming, disconnect: Disconnect, *, output: bool
) -> CheckedRequest:
    """Return the request after LiteLLM's hooks and the limits of its key, with the earlier turns
    that are stored, and with what it may use of the operator's. `output`: whether the
    response has output tokens. Raise ToolgateError."""
    surface, context = host.surface, host.context
    with nullcontext() if context.caller.authenticated else disconnect.held():
        values = await host.run_hooks(sent.content)
    client = client_of(host.scope, context)
    values, recalled = await surface.recall(values, client)
    if context.caller.key is not None:
        here = gateway()
        await context.reserve(here.limiter, here.reader.searching(surface, values), output=output)
    for part in sent.parts or parts_of(values):
        client = await part.provide(client, values, host.caller)
    if output:
        host.observer.start()
    return CheckedRequest(values, client, recalled)


async def read(scope: Scope, receive: Receive, context: RequestContext) -> RequestBody:
    """Return the whole body. LiteLLM's routes read bodies whole as well, but without limits. Raise
    RequestTooLarge, RequestTimeout, UnsupportedEncoding, RateLimited and ClientDisconnected."""
    here, reservation = gateway(), None
    if READ in scope:
        context.free_memory = scope[RESERVED]
        # The scope lives as long as the response.
        sent: RequestBody = scope.pop(READ)
        return sent
    if (owner := owner_of_body(context)) is not None:
        reservation = here.bodies.open(owner)
        context.free_memory = reservation.close
    return await body.read(
        scope,
        receive,
        limit=here.settings.max_body_bytes,
        seconds=here.settings.body_timeout,
        reservation=reservation,
    )


async def values_of(sent: RequestBody, scope: Scope, context: RequestContext) -> dict[str, Any]:
    """Return the parameters of a body that names a model, and note the model in the context. One in
    the path has precedence. Raise InvalidRequest and RequestTooLarge."""
    async with _turn(context, is_long=sent.size > body.IN_THREAD):
        values = await sent.parsed(scope)
    model = model_in_path(scope) or Fields(values).text("model") or ""
    body.check_model_name(model)
    context.model = model or None
    return values


async def chat_request(
    host: HostSide, body: Mapping[str, Any], target: Target, checked: CheckedRequest, size: int
) -> tuple[Writer, Mapping[str, Any]]:
    """Return what writes the response to a body for one of our models, with its chat request, which
    has the text of its files and the reasoning of earlier turns that was kept, and the body as
    hooks before the deployment leave it.
    `target`: the first deployment. `size`: of the body, in bytes. A long body and the tools of MCP
    servers are converted in a thread, so that other requests continue.

    Raise InvalidRequest, InvalidTools, UnsupportedParameter, ChecksBusy and ChecksFailed."""
    here, client, recalled = gateway(), checked.client, checked.recalled
    surface, context = host.surface, host.context
    body = await host.observer.before_deployment(body, target.row)
    values = surface.with_defaults(body, target.defaults)
    if here.settings.unknown_parameters == "ignore":
        values, context.notes.ignored_parameters = without_unknown(values, surface.parameters)
    convert = partial(
        here.reader.read,
        surface,
        values,
        context.notes,
        model=target.placement.model,
        owner=client.owner,
        client=client,
        recalled=recalled,
    )
    is_long = bool(recalled) or client.is_long or size > PARSED_IN_THREAD
    async with _turn(context, is_long=is_long):
        request, writer = await asyncio.to_thread(convert) if is_long else convert()
    if request.part_types - {"text"}:
        request = await here.reader.completed(request, client.owner, context)
    new_body = {**body, "input": body["input"][recalled:]} if recalled else body
    context.guard = await host.observer.guard(new_body)
    request = await context.guarded_request(request)
    if here.settings.keep_reasoning:
        request = await here.kept_reasoning.restored(request, host.fallbacks.model, client.seal)
        request = await context.guarded_request(request)
    writer.request = request
    return writer, body


def _turn(context: RequestContext, *, is_long: bool) -> AbstractAsyncContextManager[None]:
    """Hold the turn of a large body. Each of several threads that work on Python objects delays the
    event loop, so a sender has one at a time, and all together have two."""
    return gateway().reading.slot(context.caller.sender) if is_long else nullcontext()
