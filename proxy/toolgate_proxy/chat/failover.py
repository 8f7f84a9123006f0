"""An answer begun at the first backend that can: a request whose backend is lost before anything
of its answer was shown moves to another of the same model."""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import httpx

from toolgate_core.errors import BackendFailed, BackendLost, BackendUnavailable

from .. import metrics
from ..deployments import Deployment, Deployments
from ..litellm_host import patches as host
from ..litellm_host import router
from .answer import Answer, Piece

logger = logging.getLogger(__name__)

LOST_AT_MOST = 2
"""Backends that a request may be lost at after it was taken: one that kills them must not be handed
from one to the next."""

Arriving = AsyncIterator[list[Piece]]
Answered = AbstractAsyncContextManager[tuple[Answer, Arriving]]


@asynccontextmanager
async def first_answer(
    deployments: Deployments, call: host.Call, at: Callable[[Deployment, str], Answered]
) -> AsyncIterator[tuple[Answer, Arriving]]:
    """The answer, and its pieces as they come. `at` sends the request to a deployment, which knows
    the model by the name that is given with it."""
    left = [router.Placement(call.model, call.api_base, call.api_key)]
    others: list[router.Placement] | None = None
    lost = 0
    while True:
        place = left.pop()
        deployment = deployments.at(place)
        async with AsyncExitStack() as stack:
            stack.enter_context(deployment.load.carried())
            try:
                answer, arriving = await stack.enter_async_context(at(deployment, place.model))
                first = await _first(arriving)
            except (BackendUnavailable, BackendLost) as error:
                _note(deployment, error)
                lost += isinstance(error, BackendLost)
                if others is None:
                    others = _others(deployments, call, deployment)
                    left = others or ([place] if _broke_off(error) else [])
                if not left or lost >= LOST_AT_MOST:
                    raise
                metrics.MOVED.inc()
                logger.warning("A request moves on from %s: %s", deployment.url, error.message)
                continue
            yield answer, _all(first, arriving)
            return


async def _first(arriving: Arriving) -> list[Piece]:
    """The first pieces that would be shown."""
    async for pieces in arriving:
        if pieces:
            return pieces
    return []


async def _all(first: list[Piece], rest: Arriving) -> Arriving:
    yield first
    async for pieces in rest:
        yield pieces


def _broke_off(error: BackendUnavailable | BackendLost) -> bool:
    """Whether a line broke before any answer: one that was kept open, most likely, and that the
    backend closed as the request was written to it. Then even the same backend is worth a try."""
    cause = error.__cause__
    return (
        isinstance(error, BackendUnavailable)
        and isinstance(cause, httpx.TransportError)
        and not isinstance(cause, httpx.ConnectError)
    )


def _note(deployment: Deployment, error: BackendUnavailable | BackendFailed) -> None:
    """What can't be connected to leaves the rotation now; the next probe brings it back."""
    if isinstance(error.__cause__, httpx.ConnectError):
        deployment.state.failed(type(error).__name__, at_once=True)


def _others(deployments: Deployments, call: host.Call, tried: Deployment) -> list[router.Placement]:
    """Further deployments of the model that answer, in any order."""
    group = router.group_of(call.litellm_params)
    if group is None:
        return []
    found = [
        place
        for place in router.placements(group)
        if (deployment := deployments.at(place)) is not tried and deployment.state.up
    ]
    random.shuffle(found)
    return found
