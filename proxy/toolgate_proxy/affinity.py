"""Prompts that begin alike go to the same deployment, whose prefix cache then has their beginning.

LiteLLM asks after all its own filters (`litellm_router.prefer`), and its strategy chooses among
what is answered: one deployment, or all as before where there is nothing to prefer. LiteLLM's own
check, `optional_pre_call_checks: [prompt_caching]`, knows prompts that bear Anthropic's marks, and
asks Redis where it last sent them; docs/decisions/0015-prefix-affinity.md has the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import metrics
from .deployments import Deployment, Deployments
from .litellm_host import router
from .litellm_host.router import Row
from .prefix import prefix_of
from .spread import Seat, Spread


@dataclass(frozen=True)
class _Place:
    seat: Seat
    deployment: Deployment
    rows: list[Row]


class Affinity:
    def __init__(self, deployments: Deployments) -> None:
        self._deployments = deployments
        self._spreads: dict[str, Spread] = {}
        """By model, as clients name it."""

    def choose(
        self, model: str, rows: list[Row], request: Mapping[str, Any], messages: Any
    ) -> list[Row]:
        """The rows of the deployment that the prompt prefers; all, where it prefers none."""
        places = self._places(rows)
        prefix = prefix_of(request, messages) if len(places) > 1 else None
        if prefix is None:
            return rows
        spread = self._spreads.setdefault(model, Spread())
        chosen = spread.choose(prefix, [place.seat for place in places])
        metrics.AFFINITY.labels(sent="preferred" if chosen.preferred else "other").inc()
        (place,) = (place for place in places if place.seat is chosen.seat)
        place.deployment.load.expect()
        return place.rows

    def _places(self, rows: list[Row]) -> list[_Place]:
        """Empty where a row is another provider's, whose load is not known here, or has a limit of
        its own, which LiteLLM alone keeps count of."""
        rows_at: dict[router.Placement, list[Row]] = defaultdict(list)
        weights: dict[router.Placement, float] = defaultdict(float)
        for row, weight in zip(rows, router.weights_of(rows), strict=True):
            placement = router.placement_of(row)
            if placement is None or router.is_limited(row):
                return []
            rows_at[placement].append(row)
            weights[placement] += weight
        found = []
        for placement, weight in weights.items():
            if weight > 0:
                deployment = self._deployments.at(placement)
                name = f"{placement.model}@{deployment.url}"
                seat = Seat(name, weight, deployment.load.requests)
                found.append(_Place(seat, deployment, rows_at[placement]))
        return found
