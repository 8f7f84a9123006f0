"""Control fields: members of a request's body that LiteLLM treats as its own settings.

LiteLLM's own lists of them (`is_litellm_owned_kwarg`, `_BANNED_REQUEST_BODY_PARAMS`) grow with its
releases but have gaps; `FURTHER` fills them. Our own route does not need them: it rejects unknown
fields.
"""

from __future__ import annotations

from litellm.proxy.auth.auth_utils import _BANNED_REQUEST_BODY_PARAMS
from litellm.types.utils import is_litellm_owned_kwarg

OPENAI_FIELDS = frozenset({"metadata", "max_retries", "id"})
"""Fields that LiteLLM lists as its own but that are OpenAI's or harmless."""
CLIENTS = frozenset({
    "caching", "drop_params", "litellm_session_id", "litellm_trace_id", "request_timeout",
    "stream_timeout",
})  # fmt: skip
"""Fields of LiteLLM's documentation for clients that change nothing but their own request."""
FURTHER = frozenset({
    "additional_drop_params", "callbacks", "content_policy_fallbacks", "context_window_fallbacks",
    "deployment_id", "disable_fallbacks", "engine", "failure_callback", "include_fallback_errors",
    "kwargs", "model_group_retry_policy", "organization", "original_function",
    "original_generic_function", "router_settings_override", "routing_groups",
    "routing_strategy_args", "specific_deployment", "success_callback",
})  # fmt: skip
"""Fields that `completion`, the router and the proxy obey although LiteLLM's lists lack them.
(`deployment_id` turns any provider into Azure.)"""
PREFIXES = ("mock_", "_")
"""Prefixes of fields that mock a response, and of LiteLLM's private fields."""
_BANNED = frozenset(_BANNED_REQUEST_BODY_PARAMS)


def is_control(field: str) -> bool:
    """Return whether LiteLLM treats a field of a body as its own setting."""
    if field in OPENAI_FIELDS or field in CLIENTS:
        return False
    owned = field in FURTHER or is_litellm_owned_kwarg(field)
    return owned or is_banned(field) or field.startswith(PREFIXES)


def is_banned(field: str) -> bool:
    """Return whether LiteLLM rejects a field everywhere, including in `metadata`."""
    return field in _BANNED
