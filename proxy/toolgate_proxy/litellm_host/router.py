"""Touches of LiteLLM 1.106.2's router: where the deployments of a model are, and which are left to
choose among.

litellm/router.py:12498 `get_model_list` and :916 `model_names`, of the router that
litellm/proxy/proxy_server.py:2790 holds; router.py:13473 `async_get_healthy_deployments`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from litellm.router import Router

from .patches import PROVIDER

LIMITS = ("rpm", "tpm", "max_parallel_requests")
"""Of a deployment: above them LiteLLM sends nothing there, or makes it wait."""

Row = dict[str, Any]
"""A deployment, as the router has it."""

_all_that_are_left = Router.async_get_healthy_deployments


@dataclass(frozen=True)
class Placement:
    """Where a deployment of ours points to, and what the model is called there."""

    model: str
    api_base: str | None
    api_key: str | None


def placements(model: str | None) -> list[Placement]:
    """Our deployments of a model, as clients name it (aliases too), or of all models."""
    found = [placement_of(row) for row in _rows(model)]
    return [placement for placement in found if placement is not None]


def is_foreign(model: str) -> bool:
    """Whether all deployments of a model, as clients name it, are another provider's; False where
    the router knows none of that name."""
    rows = _rows(model)
    return bool(rows) and all(placement_of(row) is None for row in rows)


def model_names() -> list[str]:
    """As clients name them."""
    from litellm.proxy import proxy_server  # reads the environment as it is imported

    return sorted(proxy_server.llm_router.model_names) if proxy_server.llm_router else []


def placement_of(row: Mapping[str, Any]) -> Placement | None:
    """Of a row of LiteLLM's deployments; None where it is not ours."""
    params = row["litellm_params"]
    provider, _, model = params["model"].partition("/")
    if provider != PROVIDER:
        return None
    return Placement(model, params.get("api_base"), params.get("api_key"))


def prefer(choose: Callable[[str, list[Row], Mapping[str, Any], Any], list[Row]] | None) -> None:
    """From now on `choose(model, rows, request, messages)` says which of the deployments that are
    left for a request LiteLLM's strategy chooses among; None: all of them.

    litellm/router.py:9109 asks callbacks the same question (`async_filter_deployments`), before it
    goes by tags, by `order` and by what a deployment takes: what they narrowed down to one might
    then be none.
    """
    if choose is None:
        Router.async_get_healthy_deployments = _all_that_are_left
        return

    @functools.wraps(_all_that_are_left)
    async def narrowed(
        self: Router, model: str, request_kwargs: Row, messages: Any = None, **rest: Any
    ) -> Any:
        rows = await _all_that_are_left(self, model, request_kwargs, messages, **rest)
        if not isinstance(rows, list) or len(rows) < 2 or _is_retry(request_kwargs):
            return rows
        return choose(model, rows, request_kwargs, messages)

    Router.async_get_healthy_deployments = narrowed


def weights_of(rows: list[Row]) -> list[float]:
    """As litellm/router_strategy/simple_shuffle.py weighs deployments without limits."""
    weights = [float(row["litellm_params"].get("weight") or 0) for row in rows]
    return weights if max(weights, default=0) > 0 else [1.0] * len(rows)


def is_limited(row: Row) -> bool:
    return any(
        part.get(name) is not None
        for part in (row["litellm_params"], row.get("model_info") or {})
        for name in LIMITS
    )


def _rows(model: str | None) -> list[Row]:
    """The deployments of a model, as clients name it, or of all models."""
    from litellm.proxy import proxy_server  # reads the environment as it is imported

    rows = proxy_server.llm_router.get_model_list(model) if proxy_server.llm_router else None
    return rows or []


def _is_retry(request: Mapping[str, Any]) -> bool:
    """The router counts them in the metadata (litellm/router.py:8158)."""
    return any(
        (request.get(name) or {}).get("attempted_retries")
        for name in ("metadata", "litellm_metadata")
    )


def group_of(params: Mapping[str, Any]) -> str | None:
    """The model as clients name it, of a call's `litellm_params`; the router puts it into the
    metadata, whose name depends on the route (litellm/router.py:3240)."""
    for name in ("metadata", "litellm_metadata"):
        group = (params.get(name) or {}).get("model_group")
        if isinstance(group, str):
            return group
    return None
