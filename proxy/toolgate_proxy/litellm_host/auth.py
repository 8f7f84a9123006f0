"""Touches of LiteLLM 1.106.2 that keys and limits need; litellm_host.py has the provider's.

- litellm/proxy/proxy_server.py:2828 holds `master_key`, `general_settings` and `user_custom_auth`.
- litellm/proxy/auth/user_api_key_auth.py:2165 makes the administrator's `UserAPIKeyAuth`, under an
  alias in the key's place (litellm/constants.py:1728).
- litellm/proxy/auth/auth_utils.py:778 `get_request_route` tells a route by the request line, which
  a forged Host header can't change.
- litellm/types/utils.py:4094 `is_litellm_owned_kwarg` knows the fields of a body that LiteLLM takes
  for its own: where to send the request, what to answer in the model's place, whom to tell. Not all
  of them: `ORDERS` has the others.
- litellm/proxy/auth/auth_utils.py:374 `_BANNED_REQUEST_BODY_PARAMS`: fields that it refuses itself,
  with a 401 that sends its readers to a bug report.
- litellm.callbacks is walked for every request (litellm/proxy/utils.py:2689).
"""

from __future__ import annotations

import hmac
import uuid
from collections.abc import Mapping
from typing import Any

import litellm
from litellm.constants import LITELLM_PROXY_MASTER_KEY_ALIAS
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy._types import LitellmUserRoles, ProxyException, UserAPIKeyAuth
from litellm.proxy.auth.auth_utils import _BANNED_REQUEST_BODY_PARAMS, get_request_route
from litellm.types.utils import is_litellm_owned_kwarg
from starlette.requests import Request

from toolgate_core.errors import ToolgateError

from . import patches as host

OPENAI_FIELDS = frozenset({"metadata", "max_retries", "id"})
"""Fields of OpenAI's requests, or harmless, that LiteLLM counts among its own."""
_BANNED = frozenset(_BANNED_REQUEST_BODY_PARAMS)
ORDERS = frozenset(
    {
        "additional_drop_params",
        "callbacks",
        "content_policy_fallbacks",
        "context_window_fallbacks",
        "deployment_id",
        "disable_fallbacks",
        "drop_params",
        "engine",
        "failure_callback",
        "include_fallback_errors",
        "kwargs",
        "model_group_retry_policy",
        "organization",
        "original_function",
        "original_generic_function",
        "router_settings_override",
        "routing_groups",
        "routing_strategy_args",
        "specific_deployment",
        "success_callback",
    }
)
"""Fields that `completion` (litellm/main.py:5510: `deployment_id` makes any provider Azure), the
router and the proxy's routing obey as well, though they are not in LiteLLM's own list."""
BEGINNINGS = ("mock_", "_")
"""Of the names of fields that make LiteLLM answer in the model's place, and of its private ones."""


def is_master_key(sent: str) -> bool:
    from litellm.proxy import proxy_server  # reads the environment as it is imported

    held = proxy_server.master_key
    if not isinstance(held, str) or not held:
        return False
    return hmac.compare_digest(_bytes(sent), _bytes(held))


def admin() -> UserAPIKeyAuth:
    """What LiteLLM makes of its master key."""
    from litellm.proxy import proxy_server

    return UserAPIKeyAuth(
        api_key=LITELLM_PROXY_MASTER_KEY_ALIAS,
        user_id=proxy_server.litellm_proxy_admin_name,
        user_role=LitellmUserRoles.PROXY_ADMIN,
    )


def checks_models() -> bool:
    """Whether LiteLLM holds keys of a custom_auth to their models."""
    from litellm.proxy import proxy_server

    run = proxy_server.general_settings.get("custom_auth_run_common_checks", False)
    return bool(run) and bool(getattr(litellm, "enable_post_custom_auth_checks", False))


def route_of(request: Request) -> str:
    return str(get_request_route(request))


def proxy_exception(error: ToolgateError) -> ProxyException:
    """Our error as LiteLLM's authentication passes it on: body, status and headers are ours."""
    headers = {"retry-after": str(error.retry_after)} if error.retry_after else {}
    made = ProxyException(error.message, error.type, error.param, error.status, headers=headers)
    return host.carry(made, error)


def call_id(data: Mapping[str, Any]) -> str:
    """LiteLLM's id of the request, which its answers and logs bear."""
    held = data.get("litellm_call_id")
    return held if isinstance(held, str) else uuid.uuid4().hex


def add_callback(callback: CustomLogger) -> None:
    if callback not in litellm.callbacks:
        litellm.callbacks.append(callback)


def is_control(field: str) -> bool:
    """Whether LiteLLM would take a field of a body for an order to itself."""
    if field in OPENAI_FIELDS:
        return False
    owned = field in ORDERS or is_litellm_owned_kwarg(field)
    return owned or is_banned(field) or field.startswith(BEGINNINGS)


def is_banned(field: str) -> bool:
    """Whether LiteLLM refuses a field wherever it finds it, within `metadata` too."""
    return field in _BANNED


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
