"""Health checks: probes every backend once per second, independent of requests.

A backend that does not respond gets no requests until it does. If no backend of a model responds,
its requests end at once with BackendUnavailable (chat/failover.py). `Readiness` tells load
balancers and orchestrators whether this gateway can serve requests.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence

from toolgate_core.errors import ToolgateError

from .. import metrics
from ..backend_client.faults import refused_connection
from ..background import poll_forever
from . import deployments as probing
from .deployments import PROBE_SECONDS, Deployment, Deployments, Placement

logger = logging.getLogger(__name__)


class Health:
    """Probes the backends of `placements()`, which are all that are configured now."""

    def __init__(
        self, deployments: Deployments, placements: Callable[[], Sequence[Placement]]
    ) -> None:
        self._deployments = deployments
        self._placements = placements

    async def check_forever(self) -> None:
        """Probe all backends at each interval, until cancelled."""
        await poll_forever(
            self.probe_all, probing.PROBE_INTERVAL, logger, "The health check failed"
        )

    async def probe_all(self) -> None:
        """Probe all backends concurrently, each one once."""
        deployments = {*map(self._deployments.at, self._placements())}
        await asyncio.gather(*(self._probe(each) for each in deployments))
        await self._deployments.forget_left(deployments)

    async def _probe(self, deployment: Deployment) -> None:
        state, began = deployment.state, time.monotonic()
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                in_flight = await deployment.backend.probe()
        except (ToolgateError, TimeoutError) as error:
            refused = isinstance(error, ToolgateError) and error.code == "backend_unavailable"
            several = deployment.backend.replicas.count > 1
            state.note_failure(cause_of(error), at_once=refused and not several)
        else:
            state.note_success(time.monotonic() - began)
            # One of the replicas has responded. Routers give the others as many requests.
            replicas = max(1, deployment.backend.replicas.count)
            deployment.load.note_reported((in_flight or 0) * replicas)
        metrics.BACKEND_UP.labels(deployment.url).set(state.up)


MAX_CAUSE = 200
"""Length of the text."""


def cause_of(error: ToolgateError | TimeoutError) -> str:
    """Return what failed, for `/toolgate/status`, the log and `toolgate status`."""
    if isinstance(error, TimeoutError):
        return "it does not respond in time"
    if refused_connection(error):
        words = _words(getattr(error.__cause__, "os_error", None))
        return f"connection failed: {words}"[:MAX_CAUSE]
    return error.message[:MAX_CAUSE]


def _words(reason: OSError | None) -> str:
    """Return the words of the operating system. asyncio replaces the system's text by "Connect call
    failed". Errors of names have numbers below zero, and a text of their own."""
    number = getattr(reason, "errno", None) or 0
    words = os.strerror(number) if number > 0 else getattr(reason, "strerror", None)
    return words or (str(reason) if reason else "no connection within the time limit")


MAX_LISTED = 20
"""Maximum number of models that the log lists."""


class Readiness:
    """A gateway is ready once Redis has responded, if the configuration requires it, and a model
    can be served. It stays ready. If backends or Redis fail later, they fail for all gateways,
    which would become unready at once, and with them the models that do not depend on what failed.
    """

    def __init__(self, deployments: Deployments, reached_redis: Callable[[], bool]) -> None:
        """`reached_redis`: whether Redis has responded since the start, or is not required."""
        self._deployments = deployments
        self._reached_redis = reached_redis
        self._logged: Sequence[str] = ()
        """The models that the last line in the log lists."""

    def reason(self, models: Mapping[str, Sequence[Placement]]) -> str | None:
        """Return why the gateway is not ready, without names of models; None if it is ready.
        `models`: the backends of each model, none for a model of another provider. Models without a
        backend are logged when they change."""
        waiting = [name for name, places in models.items() if places and not self._begun(places)]
        self._log(waiting)
        if not self._reached_redis():
            return "Redis has not responded yet. Check TOOLGATE_REDIS_URL and the server."
        if not models:
            return "The configuration has no models. Add one to `model_list`."
        if len(waiting) == len(models):
            models_have = "The model has" if len(models) == 1 else f"All {len(models)} models have"
            return f"{models_have} no backend that has responded yet. The log names them."
        return None

    def serves(self, places: Sequence[Placement]) -> bool:
        """Return whether a backend of a model responds now. Models of others count as up."""
        states = [self._deployments.at(place).state for place in places]
        return not states or any(state.up and state.has_responded for state in states)

    def _begun(self, places: Sequence[Placement]) -> bool:
        return any(self._deployments.at(place).state.has_responded for place in places)

    def _log(self, waiting: Sequence[str]) -> None:
        if waiting == [*self._logged]:
            return
        self._logged = waiting
        if not waiting:
            logger.warning("Each model has had a backend.")
            return
        listed = ", ".join(map(repr, waiting[:MAX_LISTED]))
        more = f" and {len(waiting) - MAX_LISTED} more" if len(waiting) > MAX_LISTED else ""
        logger.warning("No backend has responded yet for these models: %s%s.", listed, more)
