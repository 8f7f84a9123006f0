"""The hooks and events that LiteLLM's configured callbacks need.

LiteLLM documents them in `litellm/integrations/custom_logger.py`. A callback is either one of
LiteLLM's own without effect here, or an observer, or it reads or changes requests and responses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import litellm
from litellm.integrations.custom_guardrail import CustomGuardrail
from litellm.integrations.custom_logger import CustomLogger
from litellm.types.guardrails import GuardrailEventHooks

from toolgate_core.host_probe import optional

from .errors import PROVIDER
from .proxy_server import has_database

INERT = ("litellm.proxy.hooks.", "litellm._service_logger", "litellm.router_strategy.")
"""Modules of callbacks that LiteLLM always registers. They act on LiteLLM's own keys, limits and
caches. Our route uses them only for requests whose keys LiteLLM counts."""
OPTIONAL = tuple(
    f"litellm.proxy.hooks.{name}"
    for name in ("azure_content_safety", "dynamic_rate_limiter", "prompt_injection_detection")
)
"""Modules among them of callbacks that LiteLLM registers only if they are configured."""
ROUTER = "litellm.router"
"""LiteLLM's router. Until 1.109 it registers methods that count for limits and cooldowns."""
OWN = "toolgate_proxy."
INTEGRATIONS = "litellm.integrations."
"""Loggers bundled with LiteLLM. They observe responses without changing them."""

PRE_CALL = "async_pre_call_hook"
POST_CALL = ("async_post_call_success_hook", "async_post_call_failure_hook")
CHOOSING = ("async_filter_deployments", "async_pre_call_check", "pre_call_check")
MODERATION = "async_moderation_hook"
BEFORE_DEPLOYMENT = "async_pre_call_deployment_hook"
AFTER_DEPLOYMENT = "async_post_call_success_deployment_hook"
STREAM_OF_DEPLOYMENT = "async_post_call_streaming_deployment_hook"
STREAM = "async_post_call_streaming_iterator_hook"
CHUNK = "async_post_call_streaming_hook"
RESPONSE_HOOKS = (
    MODERATION,
    AFTER_DEPLOYMENT,
    STREAM_OF_DEPLOYMENT,
    "async_post_call_response_headers_hook",
    CHUNK,
    STREAM,
)
"""Hooks that read or change a response, or run while it is made."""
PIPELINES = "_guardrail_pipelines"
"""Where LiteLLM keeps the guardrails of the policies of a request, in its metadata."""
UNSUPPORTED = (
    "async_pre_request_hook",
    "async_pre_routing_hook",
    "async_should_run_agentic_loop",
    "async_should_run_chat_completion_agentic_loop",
)
"""Hooks into LiteLLM's handler. Those of prompt management are not among them: LiteLLM calls them
for parameters only that requests and deployments on our own route cannot have (`prompt_id` …)."""


def unsupported_callback() -> str | None:
    """Return the description of a callback that needs LiteLLM's route, with its hook, or None."""
    for callback in _active():
        for hook in () if _is_for_others(callback) else UNSUPPORTED:
            if _overrides(callback, hook):
                return f"the callback {type(callback).__name__!r} has `{hook}`"
    return None


def has(*hooks: str, guardrail: bool = False) -> bool:
    """Return whether a callback has one of the hooks, not counting LiteLLM's own callbacks.
    `guardrail`: any guardrail counts, which may have it by other names."""
    return any(
        (guardrail and isinstance(each, CustomGuardrail)) or _overrides(each, hook)
        for each in _active()
        for hook in hooks
    )


def reads_responses() -> bool:
    """Return whether a callback sees responses before they are sent, or runs beside the request."""
    return any(
        isinstance(each, CustomGuardrail) or any(_overrides(each, hook) for hook in _reading(each))
        for each in _active()
    )


def acts_on_response(data: dict[str, Any]) -> bool:
    """Return whether a callback reads or changes the response to a request. A guardrail may be for
    prompts only, or for other requests. `data`: of the request."""
    places = (data.get(name) or {} for name in ("metadata", "litellm_metadata"))
    return any(PIPELINES in place for place in places) or any(
        _acts(each, data) for each in _active()
    )


def guardrails_of_whole_responses(data: dict[str, Any]) -> list[CustomGuardrail]:
    """Return the guardrails of a request's stream that must read its whole response. LiteLLM does
    not run them on streams, or only on the text of chat completions. `data`: of the request."""
    return [
        each
        for each in _active()
        if isinstance(each, CustomGuardrail) and _reads_whole(each) and _runs_after(each, data)
    ]


def is_unified(guardrail: CustomGuardrail) -> bool:
    """Return whether LiteLLM runs a guardrail by its `apply_guardrail`, on the texts and calls of
    any API. The rule is in its `ProxyLogging`."""
    native = guardrail.use_native_lifecycle_hooks
    return "apply_guardrail" in vars(type(guardrail)) and not native


def having(hook: str) -> list[CustomLogger]:
    """Return the callbacks that have a hook."""
    return [each for each in _active() if _overrides(each, hook)]


def loggers_having(hook: str) -> list[CustomLogger]:
    """Return the callbacks that have a hook, and the loggers in LiteLLM's other lists."""
    others = [each for group in _lists() for each in group if isinstance(each, CustomLogger)]
    overriding = {id(each): each for each in others if _overrides(each, hook)}
    return [*({id(each): each for each in having(hook)} | overriding).values()]


def wants_events() -> bool:
    """Return whether any callback, or LiteLLM's database, receives success or failure events."""
    return has_database() or any(not _is_inert(each) for group in _lists() for each in group)


def without_inert(log: Any, *, is_ours: bool) -> None:
    """Make one request's logging object skip callbacks that have no effect on it.

    Those are LiteLLM's own counters of deployments and keys, a third of a log event's processor
    time. Only if our own selection chose the deployment: the router's needs them. `is_ours`: our
    authentication found the key. Otherwise, or with a database, LiteLLM counts the use of the key,
    so that only the router's counters have no effect.
    """
    combined = log.get_combined_callback_list
    is_left_out = _is_inert if is_ours and not has_database() else _is_of_router

    def observers(*args: Any, **kwargs: Any) -> list[Any]:
        return [each for each in combined(*args, **kwargs) if not is_left_out(each)]

    log.get_combined_callback_list = observers


def _lists() -> tuple[Iterable[Any], ...]:
    """Return LiteLLM's lists of callbacks."""
    return (
        litellm.callbacks,
        litellm.success_callback,
        litellm.failure_callback,
        litellm._async_success_callback,
        litellm._async_failure_callback,
        litellm.input_callback,
    )


def _active() -> Iterator[CustomLogger]:
    """Yield the callbacks, without LiteLLM's own that have no effect here."""
    from litellm.litellm_core_utils.litellm_logging import get_custom_logger_compatible_class

    for entry in litellm.callbacks:
        callback = get_custom_logger_compatible_class(entry) if isinstance(entry, str) else entry
        if isinstance(callback, CustomLogger) and not _is_inert(callback):
            yield callback


def _reading(callback: CustomLogger) -> Iterable[str]:
    """Return the hooks by which a callback reads responses. Loggers that are bundled with LiteLLM
    only observe them after a success."""
    observes = type(callback).__module__.startswith(INTEGRATIONS)
    return RESPONSE_HOOKS if observes else (*RESPONSE_HOOKS, POST_CALL[0])


def _reads_whole(guardrail: CustomGuardrail) -> bool:
    """Return whether a guardrail reads only whole responses, or is a unified one with a hook on
    streams. LiteLLM prefers that hook, and those of LiteLLM pass events of other APIs and calls
    without reading them."""
    streams = STREAM in vars(type(guardrail))
    return streams if is_unified(guardrail) else _overrides(guardrail, POST_CALL[0]) and not streams


def _runs_after(guardrail: CustomGuardrail, data: dict[str, Any]) -> bool:
    """Return whether a guardrail runs on the response to a request."""
    runs = guardrail.should_run_guardrail(data=data, event_type=GuardrailEventHooks.post_call)
    return runs is True


def _acts(callback: CustomLogger, data: dict[str, Any]) -> bool:
    hooks = {*_reading(callback)} - {MODERATION}
    if isinstance(callback, CustomGuardrail):
        hooks -= {STREAM, POST_CALL[0]}
        if _runs_after(callback, data):
            return True
    return any(_overrides(callback, hook) for hook in hooks)


def _is_for_others(callback: CustomLogger) -> bool:
    """Return whether one of LiteLLM's own callbacks acts on models of other providers only."""
    providers = optional(callback, "enabled_providers")
    is_litellms = type(callback).__module__.startswith(INTEGRATIONS)
    return is_litellms and providers is not None and PROVIDER not in providers


def _is_of_router(callback: object) -> bool:
    return type(optional(callback, "__self__")).__module__.startswith(ROUTER)


def _is_inert(callback: object) -> bool:
    if _is_of_router(callback):
        return True
    module = type(callback).__module__
    return module.startswith((*INERT, OWN)) and not module.startswith(OPTIONAL)


def _overrides(callback: CustomLogger, hook: str) -> bool:
    base = CustomGuardrail if isinstance(callback, CustomGuardrail) else CustomLogger
    method = optional(type(callback), hook)
    return method is not None and method is not optional(base, hook)
