"""Prompts with the same beginning go to the same deployment, whose prefix cache then has it.

docs/decisions/0015-prefix-affinity.md compares it with LiteLLM's own check (`prompt_caching` in
`optional_pre_call_checks`), which reads only Anthropic's marks and asks Redis for each request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import metrics
from .deployments import Deployments, Placement
from .prefix_hash import prefix_of
from .rendezvous import RankedDeployment, Rendezvous


class Affinity:
    def __init__(self, deployments: Deployments) -> None:
        self._deployments = deployments
        self._spreads: dict[str, Rendezvous] = {}
        """By model, as clients name it."""

    def choose(
        self,
        model: str,
        weights: Mapping[Placement, float],
        request: Mapping[str, Any],
        messages: object = None,
    ) -> Placement | None:
        """The placement that the prompt prefers, or None where it prefers none. `weights`: share of
        the requests that each placement should get; those of weight 0 get none."""
        seats: dict[str, Placement] = {}
        candidates: list[RankedDeployment] = []
        for placement, weight in weights.items():
            if weight > 0:
                deployment = self._deployments.at(placement)
                name = f"{placement.model}@{deployment.url}"
                seats[name] = placement
                candidates.append(RankedDeployment(name, weight, deployment.load.requests))
        prefix = prefix_of(request, messages) if len(candidates) > 1 else None
        if prefix is None:
            return None
        chosen = self._spreads.setdefault(model, Rendezvous()).choose(prefix, candidates)
        metrics.AFFINITY.labels(sent="preferred" if chosen.preferred else "other").inc()
        return seats[chosen.seat.name]
