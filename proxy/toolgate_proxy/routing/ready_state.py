"""Whether this gateway can serve requests: for load balancers and orchestrators.

A gateway is ready once Redis has responded, if the configuration requires it, and a model can be
served. It stays ready. If backends or Redis fail later, they fail for all gateways, which would
become unready at once, and with them the models that do not depend on what failed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from .deployments import Deployments, Placement

logger = logging.getLogger(__name__)

MAX_LISTED = 20
"""Maximum number of models that the log lists."""


class Readiness:
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
        """Return whether a backend of a model responds now. True for a model of another
        provider."""
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
