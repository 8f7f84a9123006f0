"""An answer begun at the first backend that can: a request whose backend is lost before anything
of its answer was shown moves to another of the same model."""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import httpx

from toolgate_core import wire
from toolgate_core.errors import BackendFailed, BackendLost, BackendUnavailable

from . import litellm_host as host
from . import litellm_router as router
from . import meter, metrics
from .answer import Answer, Piece
from .backend_client import EventStream
from .deployments import Deployment, Deployments

logger = logging.getLogger(__name__)

LOST_AT_MOST = 2
"""Backends that a request may be lost at after it was taken: one that kills them must not be handed
from one to the next."""

Opened = AbstractAsyncContextManager[tuple[Answer, EventStream]]
Batches = AsyncIterator[list[Piece]]
Begun = AbstractAsyncContextManager[tuple[Answer, Batches]]


@asynccontextmanager
async def begun(
    deployments: Deployments, call: host.Call, exchange: Callable[[Deployment, str], Opened]
) -> AsyncIterator[tuple[Answer, Batches]]:
    """The answer, and its pieces as they come. `exchange` sends the request to a deployment, which
    knows the model by the name that is given with it."""
    left = [router.Placement(call.model, call.api_base, call.api_key)]
    others: list[router.Placement] | None = None
    lost = 0
    while True:
        place = left.pop()
        deployment = deployments.at(place)
        async with AsyncExitStack() as stack:
            try:
                answer, events = await stack.enter_async_context(exchange(deployment, place.model))
                first = await _first(answer, events)
            except (BackendUnavailable, BackendLost) as error:
                _note(deployment, error)
                lost += isinstance(error, BackendLost)
                if others is None:
                    others = _others(deployments, call, place)
                    left = others
                if not left or lost >= LOST_AT_MOST:
                    raise
                metrics.MOVED.inc()
                logger.warning("A request moves on from %s: %s", deployment.url, error.message)
                continue
            yield answer, _all(first, answer, events)
            return


async def _first(answer: Answer, events: EventStream) -> list[Piece]:
    """The first pieces that would be shown."""
    async for batch in events:
        if pieces := _fed(answer, batch):
            return pieces
        if answer.complete:
            break
    return []


async def _all(first: list[Piece], answer: Answer, events: EventStream) -> Batches:
    yield first
    if answer.complete:
        return
    async for batch in events:
        yield _fed(answer, batch)
        if answer.complete:
            break


def _fed(answer: Answer, batch: list[wire.StreamEvent]) -> list[Piece]:
    pieces = answer.feed(batch)
    meter.note(answer.counts.prompt, answer.counts.completion)
    return pieces


def _note(deployment: Deployment, error: BackendUnavailable | BackendFailed) -> None:
    """What can't be connected to leaves the rotation now; the next probe brings it back."""
    if isinstance(error.__cause__, httpx.ConnectError):
        deployment.state.failed(type(error).__name__, at_once=True)


def _others(
    deployments: Deployments, call: host.Call, tried: router.Placement
) -> list[router.Placement]:
    """Further deployments of the model that answer, in any order."""
    if call.group is None:
        return []
    here = deployments.at(tried)
    found = [
        place
        for place in router.placements(call.group)
        if deployments.at(place) is not here and deployments.at(place).state.up
    ]
    random.shuffle(found)
    return found
