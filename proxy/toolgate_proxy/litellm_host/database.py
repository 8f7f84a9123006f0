"""LiteLLM's database: its tables, the `router_settings` of keys and teams in it, and the cost of a
request that LiteLLM's authentication reserves in its budgets.

LiteLLM's command sets the database up when it starts, and LiteLLM's app does not. Settings replace
those of the router. LiteLLM applies the fields here, and ignores others.

The success event of a request settles its reservation. It is released before a failure event, whose
hooks find it released: two releases at the same time would both lower LiteLLM's counters. If there
is neither event, LiteLLM's middleware releases it when the request ends.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

import yaml
from litellm.litellm_core_utils.core_helpers import bind_budget_reservation_to_callbacks
from litellm.proxy._types import UserAPIKeyAuth
from litellm.proxy.spend_tracking.budget_reservation import release_or_invalidate_budget_reservation

from toolgate_core.errors import GatewayMisconfigured

from .private_names import either
from .router import router


def set_up(config: Path) -> None:
    """Create or migrate LiteLLM's tables, and set the variables of its connections, as `litellm`
    does. Does nothing if no database is configured. Raises SystemExit after an error."""
    general = yaml.safe_load(config.read_text(encoding="utf-8")).get("general_settings") or {}
    if not (general.get("database_url") or os.environ.get("DATABASE_URL")):
        return
    import litellm  # importing it reads the environment

    try:
        from prisma import Prisma  # noqa: F401 - exists once it is generated
    except (ImportError, RuntimeError):
        sys.exit(
            "LiteLLM's database needs prisma (LiteLLM cannot connect with releases after 0.11.0) "
            f"and the client that it generates. Run: export PATH={Path(sys.executable).parent}:"
            "$PATH; pip install prisma==0.11.0 && prisma generate "
            f"--schema {Path(litellm.__file__).with_name('proxy') / 'schema.prisma'}"
        )
    litellm.run_server(["--config", str(config), "--skip_server_startup"], standalone_mode=False)


RETRY_POLICY = "model_group_retry_policy"
ALIASES = "model_group_alias"
UNSUPPORTED = ("routing_strategy", "enable_tag_filtering", "weights")


def has_database() -> bool:
    """Return whether LiteLLM's database holds keys, users and settings."""
    from litellm.proxy import proxy_server

    return proxy_server.prisma_client is not None


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


def leave_budget_to_event(caller: UserAPIKeyAuth) -> None:
    """Leave the reservation to the success event, which is created after the request has ended."""
    bind_budget_reservation_to_callbacks({"metadata": {"user_api_key_auth": caller}})


async def release_budget(caller: UserAPIKeyAuth) -> None:
    """Release the reservation of a request that has failed, or that LiteLLM's handler goes on with,
    which reserves again."""
    await release_or_invalidate_budget_reservation(caller.budget_reservation)


def after_release(
    event: Coroutine[Any, Any, None], caller: UserAPIKeyAuth | None
) -> Coroutine[Any, Any, None]:
    """Return a coroutine that releases the reservation and then creates a failure event, after the
    request has ended. LiteLLM's middleware does not release it any more."""
    if caller is None:
        return event
    leave_budget_to_event(caller)
    return _after_release(event, caller)


async def _after_release(event: Coroutine[Any, Any, None], caller: UserAPIKeyAuth) -> None:
    await release_budget(caller)
    await event
