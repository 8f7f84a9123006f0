"""Which backends answer: each is asked every second, whether or not requests come.

A backend that does not answer leaves the rotation until it does. Where none answers all stay in,
and the request ends with the error that says so.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from toolgate_core.errors import ToolgateError

from ..polling import keep_looking
from ..settings import Settings
from . import metrics
from .deployments import Deployment, Deployments, Placement

logger = logging.getLogger(__name__)


class Health:
    """`placements` lists all placements that are configured at the moment."""

    def __init__(
        self,
        deployments: Deployments,
        settings: Settings,
        placements: Callable[[], Sequence[Placement]],
    ) -> None:
        self._deployments = deployments
        self._settings = settings
        self._placements = placements
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        watch = keep_looking(
            self.look, self._settings.health_interval, logger, "Backends could not be asked"
        )
        self._task = asyncio.create_task(watch)

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def look(self) -> None:
        """Asks every backend once, all at the same time."""
        known = {id(each): each for each in map(self._deployments.at, self._placements())}
        await asyncio.gather(*(self._probe(each) for each in known.values()))

    async def _probe(self, deployment: Deployment) -> None:
        state, began = deployment.state, time.monotonic()
        try:
            async with asyncio.timeout(self._settings.health_timeout):
                await deployment.backend.probe()
        except (ToolgateError, TimeoutError) as error:
            refused = isinstance(error, ToolgateError) and error.code == "backend_unavailable"
            state.failed(type(error).__name__, at_once=refused)
        else:
            state.answered(time.monotonic() - began)
        metrics.BACKEND_UP.labels(deployment.url).set(state.up)
