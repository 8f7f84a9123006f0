"""The members of a request's metadata that LiteLLM sets itself: who sent the request, which
deployment answers it, what it costs, what guardrails did. LiteLLM keeps them beside the client's
members, and reads them for budgets, spend and log events. It removes only some of them from a
request (not `user_api_key`, `deployment` …).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from litellm.proxy._types import SpendLogsMetadata
from litellm.types.utils import StandardLoggingMetadata

from ..control_fields import is_banned

CLIENTS = {"spend_logs_metadata"}
"""A member of LiteLLM's log events that clients may set."""
FURTHER = frozenset({
    "applied_tags", "caching_groups", "caller_tags", "deployment", "deployment_model_name",
    "endpoint", "global_max_parallel_requests", "headers", "hidden_params", "inherited_tags",
    "litellm_api_version", "litellm_parent_otel_span", "litellm_received_at",
    "llm_api_timing_windows", "model_group", "model_group_alias", "model_group_size",
    "model_id", "model_info", "pii_tokens", "response_cost", "user_api_end_user_max_budget",
})  # fmt: skip
"""Members of requests that are not in log events."""
OWN = (
    frozenset(SpendLogsMetadata.__annotations__)
    .union(StandardLoggingMetadata.__annotations__)
    .union(FURTHER)
    .difference(CLIENTS)
)


def is_own(name: str) -> bool:
    """Return whether LiteLLM sets a member of the metadata itself."""
    return "user_api_key" in name or name in OWN or is_banned(name) or name.startswith("_")


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
