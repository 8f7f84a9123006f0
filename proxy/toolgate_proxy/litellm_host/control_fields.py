"""Control fields: members of a request's body that LiteLLM treats as its own settings, and members
of its metadata that LiteLLM sets itself: who sent the request, which deployment answers it, what it
costs, what guardrails did. LiteLLM reads those for budgets, spend and log events, and removes only
some of the client's (not `user_api_key`, `deployment` …).

LiteLLM's own lists of fields (`is_litellm_owned_kwarg`, `_BANNED_REQUEST_BODY_PARAMS`) grow with
its releases but have gaps; `FURTHER` fills them. Our own route rejects unknown fields anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from litellm.proxy._types import SpendLogsMetadata
from litellm.proxy.auth.auth_utils import _BANNED_REQUEST_BODY_PARAMS
from litellm.types.utils import StandardLoggingMetadata, is_litellm_owned_kwarg

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
FURTHER_METADATA = frozenset({
    "applied_tags", "caching_groups", "caller_tags", "deployment", "deployment_model_name",
    "endpoint", "global_max_parallel_requests", "headers", "hidden_params", "inherited_tags",
    "litellm_api_version", "litellm_parent_otel_span", "litellm_received_at",
    "llm_api_timing_windows", "model_group", "model_group_alias", "model_group_size",
    "model_id", "model_info", "pii_tokens", "response_cost", "user_api_end_user_max_budget",
})  # fmt: skip
"""Members of a request's metadata that are not in log events."""
OWN_METADATA = (
    frozenset(SpendLogsMetadata.__annotations__)
    .union(StandardLoggingMetadata.__annotations__)
    .union(FURTHER_METADATA)
    .difference({"spend_logs_metadata"})  # which clients may set
)


def is_control(field: str) -> bool:
    """Return whether LiteLLM treats a field of a body as its own setting."""
    if field in OPENAI_FIELDS or field in CLIENTS:
        return False
    owned = field in FURTHER or is_litellm_owned_kwarg(field)
    return owned or is_banned(field) or field.startswith(PREFIXES)


def is_banned(field: str) -> bool:
    """Return whether LiteLLM rejects a field everywhere, including in `metadata`."""
    return field in _BANNED


def is_own(name: str) -> bool:
    """Return whether LiteLLM sets a member of the metadata itself."""
    return "user_api_key" in name or name in OWN_METADATA or is_banned(name) or name.startswith("_")


def without_own(value: Any) -> Any:
    """Return a client's metadata without LiteLLM's own members, at any depth."""
    if isinstance(value, list):
        return [without_own(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {name: without_own(each) for name, each in value.items() if not is_own(str(name))}


def cleaning(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the function by which LiteLLM reads each form of a request's metadata, on all routes."""

    @wraps(original)
    def normalized(*args: Any, **kwargs: Any) -> Any:
        return without_own(original(*args, **kwargs))

    return normalized
