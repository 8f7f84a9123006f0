"""Limits of keys, and unsupported operations, for requests on LiteLLM's route.

LiteLLM calls `async_pre_call_hook` once per request with the parsed body, on every endpoint that
calls a model. LiteLLM's own limiter uses limits in `UserAPIKeyAuth`; Toolgate's limits are part of
the key (decision 14).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from litellm.integrations.custom_logger import CustomLogger
from litellm.utils import DEFAULT_CHAT_COMPLETION_PARAM_VALUES

from toolgate_core.errors import PermissionDenied, ToolgateError

from ...state import gateway
from ..context import carried, identity_of
from ..deployments.router import PROVIDER, has_toolgate, is_toolgate
from ..errors import host_error
from ..operations import check_operation
from ..provider_usage import tokens_of

WITHOUT_OUTPUT = ("aembedding", "embedding", "arerank", "rerank", "amoderation", "moderation")


class LimitHook(CustomLogger):  # type: ignore[misc]  # LiteLLM's types are not read
    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> None:
        context, model = carried(), data.get("model")
        named = model if isinstance(model, str) else None
        if context is not None and context.fallback is None:
            context.model, context.call_id = named, _call_id(data)
        try:
            check_operation(named, call_type)
            if context is None:
                return
            if not context.caller.owner:
                context.caller.identity = identity_of(user_api_key_dict)
            await context.admit(gateway().limiter, data, output=call_type not in WITHOUT_OUTPUT)
            if named is None or not is_toolgate(named):
                context.meter.await_counts(stream=bool(data.get("stream")))
        except ToolgateError as error:
            raise host_error(error, named or "", ours=False) from error

    async def async_pre_call_deployment_hook(
        self, kwargs: dict[str, Any], call_type: Any
    ) -> dict[str, Any] | None:
        """Called before each attempt at a deployment, also at one of a fallback. If a fallback is
        refused here, LiteLLM responds with the error for which it was needed."""
        context = carried()
        if _is_ours(kwargs):
            return _unchecked(kwargs)
        if context is None:
            return None
        if context.caller.key is not None and context.caller.key.terms.enforced_only:
            error = PermissionDenied(
                "This API key allows models with enforced calls only, and this model is of another "
                "provider. The administrator can change it: `toolgate keys update NAME "
                "--any-model`."
            )
            raise host_error(error, context.model or "", ours=False)
        if context.model is not None and has_toolgate(context.model):
            context.notes.note_fallback()
            context.meter.await_counts(stream=bool(kwargs.get("stream")))
        return None

    async def async_log_success_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """Record the tokens of other providers, if the response itself had none. Our provider
        records its own. LiteLLM may call this after the end of the response."""
        context = carried()
        usage = getattr(response_obj, "usage", None)
        if context is None or context.meter.counted or usage is None:
            return
        found = tokens_of(usage if isinstance(usage, Mapping) else vars(usage))
        if found is not None:
            context.meter.note_tokens(found.input, found.output)
            if context.meter.settled is not None:
                await context.meter.settle()


def _is_ours(kwargs: Mapping[str, Any]) -> bool:
    provider, _, _ = str(kwargs.get("model")).partition("/")
    return PROVIDER in (provider, kwargs.get("custom_llm_provider"))


def _unchecked(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call of our provider, which checks parameters itself, so that
    LiteLLM neither refuses parameters of OpenAI that it does not list for the provider, nor a
    `tool_choice` of type `allowed_tools`."""
    made = {**kwargs, "allowed_openai_params": [*DEFAULT_CHAT_COMPLETION_PARAM_VALUES]}
    if isinstance(choice := kwargs.get("tool_choice"), dict) and "allowed_tools" in choice.values():
        made["extra_body"] = {**(kwargs.get("extra_body") or {}), "tool_choice": choice}
        del made["tool_choice"]
    return made


def _call_id(data: Mapping[str, Any]) -> str:
    """Return LiteLLM's id of the request, which appears in its responses and logs."""
    held = data.get("litellm_call_id")
    return held if isinstance(held, str) else uuid.uuid4().hex


hook = LimitHook()
