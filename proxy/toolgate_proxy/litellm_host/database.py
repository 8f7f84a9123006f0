"""LiteLLM's database: the `router_settings` of keys and teams in it, and the cost of a request that
LiteLLM's authentication reserves in its budgets. The settings replace those of the router.

The success event of a request settles its reservation. It is released before a failure event, whose
hooks find it released: two releases at the same time would both lower LiteLLM's counters. Without
either event LiteLLM's middleware releases it when the request ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from litellm.litellm_core_utils.core_helpers import bind_budget_reservation_to_callbacks
from litellm.proxy._types import UserAPIKeyAuth
from litellm.proxy.spend_tracking.budget_reservation import release_or_invalidate_budget_reservation

from toolgate_core.errors import GatewayMisconfigured

from .proxy_server import litellm_proxy
from .routing.router import router_settings

ALIASES = "model_group_alias"


async def key_settings(caller: UserAPIKeyAuth) -> Mapping[str, Any]:
    """Return the settings of a key and its team."""
    here = litellm_proxy()
    values: Mapping[str, Any] | None = await here.proxy_config.get_hierarchical_router_settings(
        user_api_key_dict=caller,
        prisma_client=here.prisma_client,
        proxy_logging_obj=here.proxy_logging_obj,
    )
    return values or {}


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise GatewayMisconfigured for an unsupported setting that differs from the router's."""
    if not settings:
        return
    held = router_settings()
    of_router = {
        "routing_strategy": held.routing_strategy,
        "enable_tag_filtering": held.enable_tag_filtering,
        "weights": None,
    }
    for name, value in of_router.items():
        if settings.get(name) and settings[name] != value:
            raise GatewayMisconfigured(
                f"The API key, or its team, has {name!r} in its `router_settings`, which the "
                "gateway does not support for this model. The administrator can remove it, or set "
                "it in the `router_settings` of the configuration."
            )


def leave_budget_to_event(caller: UserAPIKeyAuth) -> None:
    """Leave the reservation to the success event, which is created after the request has ended."""
    bind_budget_reservation_to_callbacks({"metadata": {"user_api_key_auth": caller}})


async def release_budget(caller: UserAPIKeyAuth) -> None:
    """Release the reservation of a request that has failed, or that LiteLLM's handler goes on with,
    which reserves again."""
    await release_or_invalidate_budget_reservation(caller.budget_reservation)
