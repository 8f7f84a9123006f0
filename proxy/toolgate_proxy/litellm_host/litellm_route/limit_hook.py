"""Limits of keys, and unsupported operations, for requests on LiteLLM's route.

LiteLLM calls `async_pre_call_hook` once per request with the parsed body, on every endpoint that
calls a model. The tokens of other providers are those of LiteLLM's log event, which also has those
of a stream that the client left. Until it comes, what was reserved counts.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from litellm.integrations.custom_logger import CustomLogger

from toolgate_core.errors import PermissionDenied, ToolgateError
from toolgate_core.host_probe import optional

from ...keys.limit_kinds import Tokens
from ...limits.estimate import MAX_TOKENS
from ...request_fields import as_integer
from ...state import gateway
from ..context import carried, identity_of
from ..errors import PROVIDER, host_error
from ..routing.router import is_toolgate, placements
from .refused import check_operation

WITHOUT_OUTPUT = ("aembedding", "embedding", "arerank", "rerank", "amoderation", "moderation")
UNCACHED = {"caching": False, "cache": {"no-cache": True, "no-store": True}}


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
            await context.reserve(gateway().limiter, data, output=call_type not in WITHOUT_OUTPUT)
            if named is None or not is_toolgate(named):
                context.meter.await_counts()
        except ToolgateError as error:
            raise host_error(error, named or "", ours=False) from error

    async def async_pre_call_deployment_hook(
        self, kwargs: dict[str, Any], call_type: Any
    ) -> dict[str, Any] | None:
        """Called before each attempt at a deployment, also at one of a fallback. If a fallback is
        refused here, LiteLLM responds with the error for which it was needed. A call of our
        provider does without the response cache: a semantic one has answers to other schemas."""
        if is_ours(kwargs):
            return {**kwargs, **UNCACHED}
        context = carried()
        if context is None:
            return None
        if context.caller.key is not None and context.caller.key.terms.enforced_only:
            error = PermissionDenied(
                "This API key allows models with enforced calls only, and this model is of another "
                "provider. The administrator can change it: `toolgate keys update NAME "
                "--any-model`."
            )
            raise host_error(error, context.model or "", ours=False)
        if context.model is not None and placements(context.model):
            context.notes.note_fallback()
            context.meter.await_counts()
        return None

    async def async_log_success_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """Record the tokens of other providers. Our provider records its own. LiteLLM may call
        this after the end of the response."""
        context = carried()
        usage = optional(response_obj, "usage")
        if context is None or context.meter.counted or usage is None:
            return
        tokens = tokens_of(usage if isinstance(usage, Mapping) else vars(usage))
        if tokens is not None:
            context.meter.note_tokens(tokens.input, tokens.output)
            if context.meter.settled is not None:
                await context.meter.settle()


def is_ours(kwargs: Mapping[str, Any]) -> bool:
    """Return whether a call is of our provider."""
    provider, _, _ = str(kwargs.get("model")).partition("/")
    return PROVIDER in (provider, kwargs.get("custom_llm_provider"))


def _call_id(data: Mapping[str, Any]) -> str:
    """Return LiteLLM's id of the request, which appears in its responses and logs."""
    call_id = data.get("litellm_call_id")
    return call_id if isinstance(call_id, str) else uuid.uuid4().hex


hook = LimitHook()


INPUT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
"""In Anthropic's API `input_tokens` does not include cached tokens."""


def tokens_of(usage: Mapping[str, Any]) -> Tokens | None:
    """Return the tokens of a usage. `usage`: in the form of any API; None if it has no tokens. A
    number that cannot be right counts as 0."""
    prompt = _count(usage, ("prompt_tokens",)) or _count(usage, INPUT)
    output = _count(usage, ("completion_tokens",)) or _count(usage, ("output_tokens",))
    total = max(prompt + output, _count(usage, ("total_tokens",)))
    return Tokens(prompt, min(MAX_TOKENS, total) - prompt) if total else None


def _count(usage: Mapping[str, Any], names: Iterable[str]) -> int:
    numbers = (as_integer(usage.get(name)) or 0 for name in names)
    return sum(number for number in numbers if 0 < number < MAX_TOKENS // len(INPUT))
