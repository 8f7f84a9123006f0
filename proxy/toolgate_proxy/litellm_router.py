"""Touches of LiteLLM 1.106.2's router: where the deployments of a model are.

litellm/router.py:12498 `get_model_list` and :916 `model_names`, of the router that
litellm/proxy/proxy_server.py:2790 holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .litellm_host import PROVIDER


@dataclass(frozen=True)
class Placement:
    """Where a deployment of ours points to, and what the model is called there."""

    model: str
    api_base: str | None
    api_key: str | None


def placements(model: str | None) -> list[Placement]:
    """Our deployments of a model, as clients name it (aliases too), or of all models."""
    from litellm.proxy import proxy_server  # reads the environment as it is imported

    rows = proxy_server.llm_router.get_model_list(model) if proxy_server.llm_router else []
    found = [placement_of(row) for row in rows or []]
    return [placement for placement in found if placement is not None]


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


def group_of(params: Mapping[str, Any]) -> str | None:
    """The model as clients name it, of a call's `litellm_params`; the router puts it into the
    metadata, whose name depends on the route (litellm/router.py:3240)."""
    for name in ("metadata", "litellm_metadata"):
        group = (params.get(name) or {}).get("model_group")
        if isinstance(group, str):
            return group
    return None
