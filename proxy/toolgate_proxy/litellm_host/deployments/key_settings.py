"""LiteLLM's `router_settings` of a key or team in its database, which replace those of the router.

LiteLLM applies the fields here, and ignores others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from litellm.proxy._types import UserAPIKeyAuth

from toolgate_core.errors import GatewayMisconfigured

from ..private_names import either
from .router import router

RETRY_POLICY = "model_group_retry_policy"
ALIASES = "model_group_alias"
UNSUPPORTED = ("routing_strategy", "enable_tag_filtering", "weights")


async def key_settings(caller: UserAPIKeyAuth) -> Mapping[str, Any]:
    """Return the settings."""
    from litellm.proxy import proxy_server

    find = either(proxy_server.proxy_config, "get_hierarchical_router_settings")
    found: Mapping[str, Any] | None = await find(
        user_api_key_dict=caller,
        prisma_client=proxy_server.prisma_client,
        proxy_logging_obj=proxy_server.proxy_logging_obj,
    )
    return found or {}


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise GatewayMisconfigured for a setting that our own route does not support and that differs
    from the router's."""
    for name in UNSUPPORTED:
        if settings.get(name) and settings[name] != getattr(router(), name, None):
            raise GatewayMisconfigured(
                f"The API key, or its team, has {name!r} in its `router_settings`, which the "
                "gateway does not support for this model. The administrator can remove it, or set "
                "it in the `router_settings` of the configuration."
            )
