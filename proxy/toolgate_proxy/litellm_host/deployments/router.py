"""LiteLLM's router: the deployments of a model, and which of them are ours.

Rows are the router's own dicts: `model_name`, `litellm_params`, `model_info`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...routing.deployments import Placement

PROVIDER = "toolgate"
LIMITS = ("rpm", "tpm", "max_parallel_requests")
"""Limits of a deployment, which LiteLLM's router keeps."""

Row = Mapping[str, Any]
"""A deployment, as the router has it."""


@dataclass(frozen=True)
class Target:
    """A deployment of ours, as a request on our own route needs it."""

    row: Row
    placement: Placement
    defaults: Mapping[str, Any]
    """Parameters of requests that the deployment has in its `litellm_params`."""


def router() -> Any:
    """LiteLLM's router; None before its start."""
    from litellm.proxy import proxy_server  # reads the environment as it is imported

    return proxy_server.llm_router


def rows_of(model: str | None) -> list[Row]:
    """The deployments of a model as clients name it (aliases, routing groups and wildcards, too),
    or of all models."""
    held = router()
    return (held.get_model_list(model) or []) if held is not None else []


def placements(model: str | None) -> list[Placement]:
    """Our deployments of a model, as clients name it, or of all models."""
    found = [placement_of(row) for row in rows_of(model)]
    return [placement for placement in found if placement is not None]


def is_foreign(model: str) -> bool:
    """Whether all deployments of a model, as clients name it, are another provider's; False where
    the router knows none of that name."""
    rows = rows_of(model)
    return bool(rows) and all(placement_of(row) is None for row in rows)


def model_names() -> list[str]:
    """All models, as clients name them; without aliases."""
    held = router()
    return sorted(held.model_names) if held is not None else []


def placement_of(row: Row) -> Placement | None:
    """None where the row is another provider's."""
    params = row["litellm_params"]
    provider, _, model = params["model"].partition("/")
    if provider != PROVIDER:
        return None
    return Placement(model, params.get("api_base"), params.get("api_key"))


def weights_of(rows: Sequence[Row]) -> list[float]:
    """As LiteLLM's strategy simple-shuffle weighs deployments without limits."""
    weights = [float(row["litellm_params"].get("weight") or 0) for row in rows]
    return weights if max(weights, default=0) > 0 else [1.0] * len(rows)


def is_limited(row: Row) -> bool:
    return any(
        part.get(name) is not None
        for part in (row["litellm_params"], row.get("model_info") or {})
        for name in LIMITS
    )


def group_of(params: Mapping[str, Any]) -> str | None:
    """The model as clients name it, of a call's `litellm_params`; the router puts it into the
    metadata, whose name depends on the route."""
    for name in ("metadata", "litellm_metadata"):
        group = (params.get(name) or {}).get("model_group")
        if isinstance(group, str):
            return group
    return None
