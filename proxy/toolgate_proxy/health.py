"""Which backends answer: each is asked every second, whether or not requests come.

A backend that does not answer leaves the rotation until it does. LiteLLM picks among the others
(`async_filter_deployments`, a documented hook of its callbacks); where none answers all are left
in, and the request ends with the error that says so.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from litellm.integrations.custom_logger import CustomLogger

from toolgate_core.errors import ToolgateError

from . import metrics
from .deployments import Deployment, Deployments
from .litellm_host import router
from .settings import Settings
from .watching import keep_looking

logger = logging.getLogger(__name__)


class Health(CustomLogger):  # type: ignore[misc]  # LiteLLM's types are not read
    def __init__(
        self,
        deployments: Deployments,
        settings: Settings,
        placements: Callable[[], Sequence[router.Placement]] = lambda: router.placements(None),
    ) -> None:
        super().__init__()
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

    async def async_filter_deployments(
        self,
        model: str,
        healthy_deployments: list[dict[str, Any]],
        messages: Any,
        request_kwargs: dict[str, Any] | None = None,
        parent_otel_span: Any = None,
    ) -> list[dict[str, Any]]:
        """LiteLLM's rows of deployments, without those of ours that are down."""
        if len(healthy_deployments) < 2:
            return healthy_deployments
        up = [row for row in healthy_deployments if self._is_up(row)]
        return up or healthy_deployments

    def _is_up(self, row: dict[str, Any]) -> bool:
        placement = router.placement_of(row)
        return placement is None or self._deployments.at(placement).state.up

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
