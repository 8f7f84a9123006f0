"""Prefix affinity: sends prompts with the same prefix, or with the same `prompt_cache_key`, to the
deployment that has cached the prefix.

Decision 15 compares it with LiteLLM's check (`prompt_caching` in
`optional_pre_call_checks`), which supports only Anthropic's markers and reads Redis for each
request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import metrics
from .deployments import Deployments, Placement
from .prefix_hash import hash_request
from .rendezvous import RankedDeployment, Rendezvous


class PrefixAffinity:
    """`shared`: whether all owners share the prefix caches of the backends."""

    def __init__(self, deployments: Deployments, *, shared: bool = False) -> None:
        self._deployments = deployments
        self._shared = shared
        self._rendezvous: dict[str, Rendezvous] = {}
        """By the model's name for clients."""

    def choose(
        self,
        model: str,
        weights: Mapping[Placement, float],
        request: Mapping[str, Any],
        messages: object = None,
        owner: str = "",
    ) -> Placement | None:
        """Return the placement for the prompt, or None if any placement is equally good. `weights`:
        share of the requests that each placement should get. Those of weight 0 get none. `owner`:
        the key or team that sent the request."""
        placements: dict[str, Placement] = {}
        candidates: list[RankedDeployment] = []
        for placement, weight in weights.items():
            if weight > 0:
                deployment = self._deployments.at(placement)
                name = f"{placement.model}@{deployment.url}"
                placements[name] = placement
                candidates.append(RankedDeployment(name, weight, deployment.load.total))
        if len(candidates) < 2:
            return None
        hashes = hash_request(request, messages, owner=owner, shared=self._shared)
        if hashes is None:
            return None
        rendezvous = self._rendezvous.setdefault(model, Rendezvous())
        selected = rendezvous.choose(hashes, candidates)
        metrics.AFFINITY.labels(sent="preferred" if selected.preferred else "other").inc()
        return placements[selected.deployment.name]
