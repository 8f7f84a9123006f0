"""The hooks and events that LiteLLM's configured callbacks need.

LiteLLM documents them in `litellm/integrations/custom_logger.py`. A callback is either one of
LiteLLM's own without effect here, or an observer, or it reads or changes responses. In the last
case requests take LiteLLM's route.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import litellm
from litellm.integrations.custom_guardrail import CustomGuardrail
from litellm.integrations.custom_logger import CustomLogger

INERT = ("litellm.proxy.hooks.", "litellm._service_logger", "litellm.router_strategy.")
"""Modules of callbacks that LiteLLM always registers. They act on LiteLLM's own keys, limits and
caches, none of which our route uses."""
ROUTER = "litellm.router"
"""LiteLLM's router. Until 1.109 it registers methods that count for limits and cooldowns."""
OWN = "toolgate_proxy."
INTEGRATIONS = "litellm.integrations."
"""Loggers bundled with LiteLLM. They observe responses without changing them."""

PRE_CALL = "async_pre_call_hook"
POST_CALL = ("async_post_call_success_hook", "async_post_call_failure_hook")
CHOOSING = ("async_filter_deployments", "async_pre_call_check", "pre_call_check")
RESPONSE_HOOKS = (
    "async_moderation_hook",
    "async_post_call_response_headers_hook",
    "async_post_call_streaming_deployment_hook",
    "async_post_call_streaming_hook",
    "async_post_call_streaming_iterator_hook",
    "async_post_call_success_deployment_hook",
    "async_pre_call_deployment_hook",
    "async_pre_request_hook",
    "async_pre_routing_hook",
    "async_should_run_agentic_loop",
    "async_should_run_chat_completion_agentic_loop",
    "get_chat_completion_prompt",
    "async_get_chat_completion_prompt",
)
"""Hooks that read or change a response or replace the request. Our route does not support them."""


def reading_callback() -> str | None:
    """Return the description of a callback that needs LiteLLM's route, with its hook; None: there
    is none."""
    for callback in _all():
        kind = type(callback)
        if isinstance(callback, CustomGuardrail):
            return f"the guardrail {getattr(callback, 'guardrail_name', None) or kind.__name__!r}"
        if _is_inert(callback):
            continue
        observed = kind.__module__.startswith(INTEGRATIONS)
        for hook in RESPONSE_HOOKS if observed else (*RESPONSE_HOOKS, POST_CALL[0]):
            if _overrides(callback, hook):
                return f"the callback {kind.__name__!r} has `{hook}`"
    return None


def wants_pre_call() -> bool:
    """Return whether a callback has `async_pre_call_hook`, not counting LiteLLM's own callbacks."""
    return any(not _is_inert(each) and _overrides(each, PRE_CALL) for each in _all())


def chooses_deployments() -> bool:
    """Return whether a callback takes part in the router's choice of a deployment."""
    return any(
        not _is_inert(each) and _overrides(each, hook) for each in _all() for hook in CHOOSING
    )


def wants_post_call() -> bool:
    """Return whether an observer has a post-call hook."""
    return any(
        not _is_inert(each) and _overrides(each, hook) for each in _all() for hook in POST_CALL
    )


def wants_events() -> bool:
    """Return whether any callback receives success or failure events."""
    lists: tuple[Iterable[Any], ...] = (
        litellm.callbacks,
        litellm.success_callback,
        litellm.failure_callback,
        litellm._async_success_callback,
        litellm._async_failure_callback,
        litellm.input_callback,
    )
    return any(not _is_inert(each) for held in lists for each in held)


def without_inert(log: Any) -> None:
    """Make one request's logging object skip callbacks that have no effect on it.

    Those are LiteLLM's own counters of deployments and keys, a third of a log event's processor
    time. Only for a request whose deployment our own selection chose: the router's needs them.
    """
    combined = log.get_combined_callback_list

    def observers(*args: Any, **kwargs: Any) -> list[Any]:
        return [each for each in combined(*args, **kwargs) if not _is_inert(each)]

    log.get_combined_callback_list = observers


def _all() -> Iterator[CustomLogger]:
    from litellm.litellm_core_utils.litellm_logging import get_custom_logger_compatible_class

    for held in litellm.callbacks:
        callback = get_custom_logger_compatible_class(held) if isinstance(held, str) else held
        if isinstance(callback, CustomLogger):
            yield callback


def _is_inert(callback: object) -> bool:
    if type(getattr(callback, "__self__", None)).__module__.startswith(ROUTER):
        return True
    module = type(callback).__module__
    return module.startswith((*INERT, OWN))


def _overrides(callback: CustomLogger, hook: str) -> bool:
    base = getattr(CustomLogger, hook, None)
    held = getattr(type(callback), hook, None)
    return held is not None and held is not base
