"""A request on its way in: its key, its body, the model that it names, and the chat request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from starlette.types import Receive, Scope

from toolgate_core.chat_request import ChatRequest

from ..api.shared.parameter import without_unknown
from ..api.surface import Client, Surface
from ..context import RequestContext
from ..litellm_host.deployments.model_route import ModelRoute
from ..litellm_host.deployments.own_route import asked, own_route
from ..litellm_host.deployments.router import Asker, Target
from ..litellm_host.mcp_credentials import McpCredentials
from ..request_fields import Fields
from ..state import gateway
from . import body_guard
from .authorization import check_key
from .client import owner_of_body
from .paths import model_in_path
from .transport import body
from .transport.body import READ, RESERVED, RequestBody

PARSED_IN_THREAD = 50_000
"""Size in bytes from which a body is converted in a thread. Canonical forms of large schemas take
a second."""


@dataclass(frozen=True)
class Arrived:
    """A request at a path of an API, whose key was checked and whose body was read."""

    body: RequestBody
    values: dict[str, Any]
    """Its parameters."""
    asker: Asker
    route: ModelRoute | None
    """None: LiteLLM's handler serves the model."""
    credentials: McpCredentials = field(default_factory=McpCredentials)

    def without_credentials(self, scope: Scope) -> Arrived:
        """Return the request with placeholders for what only MCP servers get. Raise
        InvalidRequest."""
        values = self.credentials.hidden(self.values)
        self.credentials.take(scope["headers"])
        return Arrived(self.body, values, self.asker, self.route, self.credentials)


async def arrive(scope: Scope, receive: Receive, context: RequestContext) -> Arrived:
    """Check the key, and read the body of a request that names a model. Raise ToolgateError."""
    await check_key(scope, context)
    sent = await read(scope, receive, context)
    values = await values_of(sent, scope, context)
    model, asker = await asked(scope, context.model or "")
    return Arrived(sent, values, asker, own_route(model, asker))


async def read(scope: Scope, receive: Receive, context: RequestContext) -> RequestBody:
    """Return the whole body. LiteLLM's routes read bodies whole as well, but without limits. Raise
    RequestTooLarge, RequestTimeout, UnsupportedEncoding, RateLimited and ClientDisconnected."""
    here, reservation = gateway(), None
    if READ in scope:
        context.free_memory = scope[RESERVED]
        # The scope lives as long as the response.
        sent: RequestBody = scope.pop(READ)
        return sent
    if (owner := owner_of_body(scope, context)) is not None:
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
    values = await sent.parsed(scope, body_guard.check_bounds)
    model = model_in_path(scope) or Fields(values).text("model") or ""
    body_guard.check_model_name(model)
    context.model = model or None
    return values


async def chat_request(
    surface: Surface,
    values: Mapping[str, Any],
    context: RequestContext,
    target: Target,
    client: Client,
    *,
    model: str,
    recalled: int,
    size: int,
) -> ChatRequest:
    """Return the chat request of a body for one of our models, with the text of its PDFs and the
    reasoning of earlier turns that was kept. `target`: the first deployment. `model`: its name for
    clients. `recalled`: as `surface.recall` returned it. `size`: of the body, in bytes. A long body
    and the tools of MCP servers are converted in a thread, so that other requests continue.

    Raise InvalidRequest, InvalidTools, UnsupportedParameter, ChecksBusy and ChecksFailed."""
    here = gateway()
    values = surface.with_defaults(values, target.defaults)
    if here.settings.unknown_parameters == "ignore":
        values, context.ignored_parameters = without_unknown(values, surface.parameters)
    convert = partial(
        here.reader.read,
        surface,
        values,
        context,
        model=target.placement.model,
        owner=client.owner,
        client=client,
        recalled=recalled,
    )
    is_long = bool(recalled) or client.is_long or size > PARSED_IN_THREAD
    request = await asyncio.to_thread(convert) if is_long else convert()
    if request.documents:
        request = await here.documents.read(request, client.owner, context)
    if here.settings.keep_reasoning:
        request = await here.kept_reasoning.restored(request, model, client.seal)
    return request
