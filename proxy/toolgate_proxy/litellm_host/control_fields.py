"""Fields of a body that LiteLLM takes for orders to itself instead of parameters of the model.

LiteLLM has a list of its own (`is_litellm_owned_kwarg`, `_BANNED_REQUEST_BODY_PARAMS`), which grows
with its releases but has gaps; `FURTHER` closes those. Requests on our own route need none of this:
there a field that is no parameter is refused.
"""

from __future__ import annotations

from litellm.proxy.auth.auth_utils import _BANNED_REQUEST_BODY_PARAMS
from litellm.types.llms.openai import ValidUserMessageContentTypes
from litellm.types.utils import is_litellm_owned_kwarg

USER_CONTENT_TYPES = frozenset(ValidUserMessageContentTypes)
"""Types of content parts in a user message that LiteLLM accepts."""
OPENAI_FIELDS = frozenset({"metadata", "max_retries", "id"})
"""Fields of OpenAI's requests, or harmless, that LiteLLM counts among its own."""
FURTHER = frozenset(
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
"""Fields that `completion` (`deployment_id` makes any provider Azure), the router and the proxy's
routing obey as well, though they are not in LiteLLM's lists."""
PREFIXES = ("mock_", "_")
"""Of fields that make LiteLLM answer in the model's place, and of its private ones."""
_BANNED = frozenset(_BANNED_REQUEST_BODY_PARAMS)


def is_control(field: str) -> bool:
    """Whether LiteLLM would take a field of a body for an order to itself."""
    if field in OPENAI_FIELDS:
        return False
    owned = field in FURTHER or is_litellm_owned_kwarg(field)
    return owned or is_banned(field) or field.startswith(PREFIXES)


def is_banned(field: str) -> bool:
    """Whether LiteLLM refuses a field wherever it finds it, in `metadata`, too."""
    return field in _BANNED
