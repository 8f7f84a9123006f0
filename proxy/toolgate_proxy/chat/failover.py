"""Failover: moves a request to another backend of its model if the first one fails before its
client gets anything: before the first event of a stream, or before the end of a whole response."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

from toolgate_core.errors import BackendFailed, BackendLost, BackendUnavailable

from ..backend_client.faults import refused_connection, repeats, unresponsive
from ..context import RequestContext
from ..request.chat_request import ChatRequest
from ..routing.deployments import Deployment, Deployments, Placement
from ..routing.health import cause_of
from . import metrics, tool_loop
from .engine import EngineRun
from .preparation import Engine
from .response import ChatResponse, ResponseEvent

logger = logging.getLogger(__name__)

MAX_LOST = 2
"""Maximum number of backends that may fail after they accepted a request. The request might have
crashed them, so it must not be sent to all of them."""

Events = AsyncIterator[list[ResponseEvent]]
Responding = AbstractAsyncContextManager[tuple[ChatResponse, Events]]
"""What `respond` returns."""
Alternatives = Callable[[Deployment], Sequence[Placement]]
"""Returns the model's other placements, given the deployment that failed."""
T = TypeVar("T")
Begin = Callable[[ChatRequest, Deployment], AbstractAsyncContextManager[T]]
"""Begins a request at one backend. The request moves if entering the context fails."""


class Failover:
    """The engine, at the first of several backends that does not fail."""

    def __init__(self, engine: Engine, deployments: Deployments) -> None:
        self._engine = engine
        self._deployments = deployments

    def respond(
        self,
        request: ChatRequest,
        first: Placement,
        alternatives: Alternatives,
        context: RequestContext,
    ) -> Responding:
        """Yield the response and its events in batches, from `first` or one of the alternatives."""
        begin = partial(_begin, self._engine, context)
        return self._begun(begin, request, first, alternatives)

    async def count(
        self,
        request: ChatRequest,
        first: Placement,
        alternatives: Alternatives,
        context: RequestContext,
    ) -> int:
        """Return the number of tokens of the prompt, counted by `first` or one of the alternatives.
        Raise ToolgateError if the request is refused or all backends fail."""

        @asynccontextmanager
        async def begin(request: ChatRequest, deployment: Deployment) -> AsyncIterator[int]:
            run = EngineRun(self._engine, deployment, context)
            if request.shortener is not None:
                request = await request.shortener.edited(run, request)
            yield await run.count(request)

        async with self._begun(begin, request, first, alternatives) as tokens:
            return tokens

    @asynccontextmanager
    async def _begun(
        self, begin: Begin[T], request: ChatRequest, first: Placement, alternatives: Alternatives
    ) -> AsyncIterator[T]:
        """Yield what `begin` yields, at `first` or at the first alternative that does not fail."""
        remaining: list[Placement] = [first]
        moved = False
        lost = 0
        again = set[Placement]()
        """The addresses that were asked again."""
        while True:
            placement = remaining.pop()
            deployment = self._deployments.at(placement)
            async with AsyncExitStack() as stack:
                stack.enter_context(deployment.load.running())
                try:
                    if deployment.state.is_down:  # a hung one would wait for its time limit
                        raise unresponsive()
                    attempt = request
                    if placement.model != request.model:
                        attempt = replace(request, model=placement.model)
                    result = await stack.enter_async_context(begin(attempt, deployment))
                except (BackendUnavailable, BackendLost) as error:
                    _note_failure(deployment, error)
                    lost += isinstance(error, BackendLost)
                    if placement not in again and _may_have_another(deployment, error):
                        again.add(placement)
                        remaining.append(placement)
                    elif not moved:
                        moved, remaining = True, [*alternatives(deployment)]
                    if not remaining or lost >= MAX_LOST:
                        raise
                    metrics.FAILOVERS.inc()
                    logger.warning(
                        "Backend %s failed, so the request is sent to another one, or again: %s",
                        deployment.url,
                        error.message,
                    )
                    continue
                deployment.state.note_response()
                yield result
                return


@asynccontextmanager
async def _begin(
    engine: Engine, context: RequestContext, request: ChatRequest, deployment: Deployment
) -> AsyncIterator[tuple[ChatResponse, Events]]:
    """Yield a response and its events, of which those have arrived that are sent at once."""
    context.deployment = deployment
    respond = tool_loop.respond if request.shortener is None else request.shortener.respond
    async with respond(EngineRun(engine, deployment, context), request) as (response, events):
        arriving, first = _checked(events, context.caller.require_key), list[list[ResponseEvent]]()
        # Calls that the gateway runs must not run twice.
        at_once = request.stream or request.gateway_tools or request.pending_calls
        try:
            async for batch in arriving:
                first.append(batch)
                if batch and at_once:
                    break
        except asyncio.CancelledError as left:
            if at_once or not any(first):
                raise
            # What was generated until the client left counts, as that of a stream.
            arriving = _raising(left)
        yield response, _chain(first, arriving)


async def _checked(events: Events, require_key: Callable[[], None] | None) -> Events:
    """Raise RetiredKey if the key of the request is revoked meanwhile."""
    async for batch in events:
        if require_key is not None:
            require_key()
        yield batch


async def _raising(error: BaseException) -> Events:
    """Yield no events, and raise the error."""
    raise error
    yield []


async def _chain(first: Iterable[list[ResponseEvent]], rest: Events) -> Events:
    for batch in first:
        yield batch
        await asyncio.sleep(0)  # others have their turn between the batches of a long response
    async for batch in rest:
        yield batch


def _may_have_another(deployment: Deployment, error: BackendUnavailable | BackendFailed) -> bool:
    """Return whether another replica at the same address may respond. The client of the backend has
    already asked again after errors of connections."""
    several = deployment.backend.replicas.count > 1
    return several and not repeats(error) and not deployment.state.is_down


def _note_failure(deployment: Deployment, error: BackendUnavailable | BackendFailed) -> None:
    """Remove a backend that refuses connections from the rotation, until a probe succeeds. Of
    several replicas one may have left, so probes decide."""
    if refused_connection(error) and deployment.backend.replicas.count < 2:
        deployment.state.note_failure(cause_of(error), at_once=True)
