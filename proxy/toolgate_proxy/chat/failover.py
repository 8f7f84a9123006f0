"""A response begun at the first backend that can: a request whose backend is lost before any event
of its response moves to another backend of the same model."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace

import httpx

from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import BackendFailed, BackendLost, BackendUnavailable

from ..context import RequestContext
from ..routing.deployments import Deployment, Deployments, Placement
from . import metrics, resampling
from .engine import Engine
from .response import ChatResponse, ResponseEvent

logger = logging.getLogger(__name__)

LOST_AT_MOST = 2
"""Backends that may be lost with a request that they had accepted: a request that crashes backends
must not be passed from one to the next."""

Events = AsyncIterator[list[ResponseEvent]]
Responding = AbstractAsyncContextManager[tuple[ChatResponse, Events]]
Alternatives = Callable[[Deployment], Sequence[Placement]]
"""The other placements of the model, given the deployment that was tried; asked for only when that
one is lost."""


@asynccontextmanager
async def respond(
    engine: Engine,
    deployments: Deployments,
    request: ChatRequest,
    first: Placement,
    alternatives: Alternatives,
    context: RequestContext,
) -> AsyncIterator[tuple[ChatResponse, Events]]:
    """The response, begun, and its events in batches, from `first` or one of its alternatives."""
    left: list[Placement] = [first]
    others: Sequence[Placement] | None = None
    lost = 0
    while True:
        placement = left.pop()
        deployment = deployments.at(placement)
        async with AsyncExitStack() as stack:
            stack.enter_context(deployment.load.carried())
            try:
                asked = replace(request, model=placement.model)
                response = resampling.respond(engine, asked, deployment, context)
                answer, events = await stack.enter_async_context(response)
                shown = await _first_shown(events)
            except (BackendUnavailable, BackendLost) as error:
                _note(deployment, error)
                lost += isinstance(error, BackendLost)
                if others is None:
                    others = alternatives(deployment)
                    left = [*others] or ([placement] if _broke_off(error) else [])
                if not left or lost >= LOST_AT_MOST:
                    raise
                metrics.FAILOVERS.inc()
                logger.warning("A request moves on from %s: %s", deployment.url, error.message)
                continue
            yield answer, _all(shown, events)
            return


async def _first_shown(events: Events) -> list[ResponseEvent]:
    """The first batch that is not empty."""
    async for batch in events:
        if batch:
            return batch
    return []


async def _all(first: list[ResponseEvent], rest: Events) -> Events:
    yield first
    async for batch in rest:
        yield batch


def _broke_off(error: BackendUnavailable | BackendLost) -> bool:
    """Whether a connection broke before any response: most likely one that was kept open, and that
    the backend closed as the request was written to it. Then the same backend is worth a try."""
    cause = error.__cause__
    return (
        isinstance(error, BackendUnavailable)
        and isinstance(cause, httpx.TransportError)
        and not isinstance(cause, httpx.ConnectError)
    )


def _note(deployment: Deployment, error: BackendUnavailable | BackendFailed) -> None:
    """A backend that refuses connections leaves the rotation; the next probe may bring it back."""
    if isinstance(error.__cause__, httpx.ConnectError):
        deployment.state.failed(type(error).__name__, at_once=True)
