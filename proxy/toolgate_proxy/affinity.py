"""Prompts that begin alike go to the same deployment, whose prefix cache then has their beginning.

LiteLLM asks after all its own filters (`litellm_router.prefer`), and its strategy chooses among
what is answered: one deployment, or all as before where there is nothing to prefer. LiteLLM's own
check, `optional_pre_call_checks: [prompt_caching]`, knows prompts that bear Anthropic's marks, and
asks Redis where it last sent them; docs/decisions/0015-prefix-affinity.md has the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import litellm_router as router
from . import metrics
from .deployments import Deployment, Deployments
from .litellm_router import Row
from .prefix import prefix_of
from .spread import Seat, Spread


class Affinity:
    def __init__(self, deployments: Deployments) -> None:
        self._deployments = deployments
        self._spreads: dict[str, Spread] = {}
        """By model, as clients name it."""

    def choose(
        self, model: str, rows: list[Row], request: Mapping[str, Any], messages: Any
    ) -> list[Row]:
        """The rows of the deployment that the prompt prefers; all, where it prefers none."""
        seats = self._seats(rows)
        prefix = prefix_of(request, messages) if len(seats) > 1 else None
        if prefix is None:
            return rows
        here = self._spreads.setdefault(model, Spread())
        chosen = here.choose(prefix, [seat for seat, _, _ in seats])
        if chosen is None:
            metrics.AFFINITY.labels(sent="any").inc()
            return rows
        metrics.AFFINITY.labels(sent="preferred" if chosen.preferred else "other").inc()
        (found,) = (each for each in seats if each[0] is chosen.seat)
        _, deployment, its_rows = found
        deployment.load.expect()
        return its_rows

    def _seats(self, rows: list[Row]) -> list[tuple[Seat, Deployment, list[Row]]]:
        """Empty where a row is another provider's, whose load is not known here, or has a limit of
        its own, which LiteLLM alone keeps count of."""
        grouped: dict[router.Placement, tuple[float, list[Row]]] = {}
        for row, weight in zip(rows, router.weights_of(rows), strict=True):
            place = router.placement_of(row)
            if place is None or router.is_limited(row):
                return []
            before, its_rows = grouped.get(place, (0.0, []))
            grouped[place] = (before + weight, [*its_rows, row])
        return [
            (Seat(f"{place.model}@{found.url}", weight, found.load.requests), found, its_rows)
            for place, (weight, its_rows) in grouped.items()
            if weight > 0 and (found := self._deployments.at(place))
        ]
