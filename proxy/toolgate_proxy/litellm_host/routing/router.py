"""Access to LiteLLM's router: a model's deployments, and which of them are Toolgate backends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

import litellm
from litellm.types.utils import CustomPricingLiteLLMParams

from ...discovery import is_name
from ...routing.deployments import Placement
from ...settings import settings
from ...state import gateway
from ..errors import PROVIDER
from ..proxy_server import litellm_proxy
from .long_term import entry_points

PRICES = frozenset(CustomPricingLiteLLMParams.model_fields)
"""Fields of `litellm_params` from which LiteLLM computes costs."""
LIMITS = ("rpm", "tpm")
"""Limits of a deployment that LiteLLM's router enforces."""

Row = Mapping[str, Any]
"""The router's dict of one deployment: `model_name`, `litellm_params`, `model_info`."""
SlotHolder = Callable[[Row], AbstractContextManager[None]]
"""Holds a slot of a deployment. Raise RateLimitError if none is free."""


@dataclass(frozen=True)
class Target:
    """A Toolgate deployment, as needed by a request on our own route."""

    row: Row
    placement: Placement
    defaults: Mapping[str, Any]
    """Default request parameters in the deployment's `litellm_params`."""


@dataclass(frozen=True)
class Sender:
    """The sender of a request, as far as it decides to which deployments the request may go."""

    team: str | None = None
    """LiteLLM's team."""
    is_administrator: bool = False


def router() -> Any:
    """Return LiteLLM's router; None before LiteLLM has started."""
    return litellm_proxy().llm_router


def registry() -> Any:
    """Return LiteLLM's registry of the configured deployments; None before LiteLLM has started."""
    held = router()
    return None if held is None else entry_points(held).registry()


def router_settings() -> Any:
    """Return the settings of LiteLLM's router, which change while it runs."""
    return entry_points(router()).settings()


def rows_of(model: str | None, sender: Sender | None = None) -> list[Row]:
    """Return the deployments of a model, by a name, alias, routing group or wildcard match; None:
    of all models. `sender`: only those that may serve its requests. A name that is discovered has
    one for each of its replicas."""
    return [each for row in _configured(model, sender) for each in _replicas_of(row)]


def _replicas_of(row: Row) -> list[Row]:
    """Return a row for each replica of a deployment whose `api_base` is a name. They share the id
    of the deployment, its limits and its weight."""
    place, params = placement_of(row), row["litellm_params"]
    if place is None or not is_name(place.api_base or settings().backend_url):
        return [row]
    found = gateway().deployments.replicas_of(place)
    share = {"weight": params["weight"] / len(found)} if params.get("weight") else {}
    return [
        {**row, "litellm_params": {**params, **share, "api_base": each.api_base}} for each in found
    ]


def _configured(model: str | None, sender: Sender | None) -> list[Row]:
    if (held := registry()) is None:
        return []
    if sender is None or model is None:
        return held.deployments(model) or []
    rows: list[Row] = held.deployments(model, team_id=sender.team) or []
    usable = [row for row in rows if team_of(row) in (None, sender.team)]
    if usable or sender.team is not None or not sender.is_administrator:
        return usable
    # As in LiteLLM, the administrator may use the models of a team, if they are of only one.
    rows = rows or [row for row in held.deployments() or () if public_name_of(row) == model]
    return rows if len({team_of(row) for row in rows}) == 1 else []


def placements(model: str | None, sender: Sender | None = None) -> list[Placement]:
    """Return the Toolgate deployments of a model; None: of all models."""
    found = [placement_of(row) for row in rows_of(model, sender)]
    return [placement for placement in found if placement is not None]


def is_foreign(model: str, sender: Sender | None = None) -> bool:
    """Return whether all deployments of a model are another provider's; False for an unknown
    model."""
    rows = rows_of(model, sender)
    return bool(rows) and all(placement_of(row) is None for row in rows)


def is_toolgate(model: str | None) -> bool:
    """Return whether all deployments of a model are Toolgate's; None: of all models. False if there
    are none."""
    rows = rows_of(model)
    return bool(rows) and all(placement_of(row) is not None for row in rows)


def model_names() -> list[str]:
    """Return the names of all models, without aliases."""
    held = registry()
    return sorted(held.names(kind="group_set")) if held is not None else []


def has_plain_names() -> bool:
    """Return whether `model_names` has all names of models: no wildcards and no aliases."""
    held = registry()
    plain = held is not None and not held.aliases()
    return plain and not any("*" in name for name in model_names())


def placement_of(row: Row) -> Placement | None:
    """Return the placement of a deployment; None for another provider's."""
    params = row["litellm_params"]
    provider, _, model = params["model"].partition("/")
    if provider != PROVIDER:
        return None
    return Placement(model, params.get("api_base"), params.get("api_key"), row.get("model_name"))


def id_of(row: Row) -> str | None:
    """Return LiteLLM's id of a deployment, which its replicas share; None: it has none."""
    found = (row.get("model_info") or {}).get("id")
    return None if found is None else str(found)


def team_of(row: Row) -> str | None:
    """Return the only team of LiteLLM's database that may use a deployment; None: all may."""
    team: str | None = (row.get("model_info") or {}).get("team_id")
    return team


def public_name_of(row: Row) -> str:
    """Return the name by which requests ask for a deployment."""
    info = row.get("model_info") or {}
    return str(info.get("team_public_model_name") or row["model_name"])


def weights_of(rows: Sequence[Row]) -> list[float]:
    """Return the weights of deployments without limits, as in LiteLLM's strategy simple-shuffle."""
    weights = [float(row["litellm_params"].get("weight") or 0) for row in rows]
    return weights if max(weights, default=0) > 0 else [1.0] * len(rows)


def alias_target(model: str) -> str | None:
    """Return the model that an alias of the router stands for; None: it is no alias."""
    found: str | None = registry().resolve(model, kind="alias")
    return found


def is_limited(row: Row) -> bool:
    return any(
        part.get(name) is not None
        for part in (row["litellm_params"], row.get("model_info") or {})
        for name in LIMITS
    )


def group_of(params: Mapping[str, Any]) -> str | None:
    """Return the client's model name in a call's `litellm_params`. The router stores it in the
    metadata, under a key that depends on the endpoint."""
    for name in ("metadata", "litellm_metadata"):
        group = (params.get(name) or {}).get("model_group")
        if isinstance(group, str):
            return group
    return None


async def within_limits(
    model: str, data: dict[str, Any], messages: object, hold_slot: SlotHolder, held: ExitStack
) -> Row:
    """Return the row that LiteLLM's router selects. `held` gets its slot. Raise RateLimitError if
    all are at their limits.

    LiteLLM counts a request when it checks the selected row. From 1.110 on, other requests are
    selected for between the two, so that a row can be full although another one is not.
    """
    select = entry_points(router()).select
    for left in reversed(range(max(1, len(rows_of(model))))):
        row: Row = await select(model, data, messages=messages)
        with ExitStack() as slot:
            try:
                slot.enter_context(hold_slot(row))
                await router().async_routing_strategy_pre_call_checks(
                    deployment=row, parent_otel_span=None
                )
            except litellm.RateLimitError:
                if not left:
                    raise
            else:
                held.enter_context(slot.pop_all())
                break
    return row
