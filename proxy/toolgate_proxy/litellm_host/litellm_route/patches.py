"""Patches of LiteLLM that our provider needs on LiteLLM's route, and the reason for each:

- `_complete_custom_providers` wraps a provider's stream in the stock `CustomStreamWrapper`, which
  estimates usage, mixes up the choices of n > 1, and drops logprobs. It opens the stream only after
  the response has started, so errors cannot have their HTTP status.
- `validate_openai_optional_params` truncates `stop` to four strings without an error.
- `ProxyException.to_dict` creates the error body, with the HTTP status as `code` and with class
  names before the message.
- LiteLLM's handlers for guardrails read only a part of a request, and convert the rest
  (`guardrail_inputs.py`).
- LiteLLM takes members of a client's metadata for its own (`control_fields.py`).
- `PrismaDBExceptionHandler` imports `prisma`, LiteLLM's database client, to detect database errors.
  Without prisma a 401 became a 500.
"""

from __future__ import annotations

import datetime
import functools
import importlib.util
import sys
import traceback
from collections.abc import AsyncGenerator, Callable
from typing import Any

import litellm
import litellm.main
from litellm.integrations.custom_logger import CustomLogger
from litellm.litellm_core_utils.streaming_handler import CustomStreamWrapper
from litellm.llms.custom_llm import CustomLLM
from litellm.proxy import litellm_pre_call_utils
from litellm.proxy._types import ProxyException
from litellm.proxy.db.exception_handler import PrismaDBExceptionHandler
from litellm.types.utils import ModelResponseStream
from litellm.utils import DEFAULT_CHAT_COMPLETION_PARAM_VALUES

from toolgate_core.host_probe import optional

from ...background import in_background
from ..callbacks.guardrail_inputs import HANDLERS, process_input_messages
from ..context import hold
from ..control_fields import cleaning
from ..errors import CARRIED, PROVIDER
from .limit_hook import hook, is_ours

_MADE = "_toolgate_registered"
"""Attribute of litellm.main that is set once the patches are installed."""


class CheckExemption(CustomLogger):  # type: ignore[misc]  # LiteLLM's types are not read
    """Keeps LiteLLM from refusing what our provider checks itself: OpenAI's parameters that LiteLLM
    does not list for the provider, and a `tool_choice` of type `allowed_tools`."""

    async def async_pre_call_deployment_hook(
        self, kwargs: dict[str, Any], call_type: Any
    ) -> dict[str, Any] | None:
        if not is_ours(kwargs):
            return None
        changed = {**kwargs, "allowed_openai_params": [*DEFAULT_CHAT_COMPLETION_PARAM_VALUES]}
        choice = kwargs.get("tool_choice")
        if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
            changed["extra_body"] = {**(kwargs.get("extra_body") or {}), "tool_choice": choice}
            del changed["tool_choice"]
        return changed


check_exemption = CheckExemption()


def register(provider: CustomLLM) -> CustomLLM:
    """Install the patches once per process. Return the provider."""
    ours = (check_exemption, hook)
    litellm.callbacks += [each for each in ours if each not in litellm.callbacks]
    if not optional(litellm.main, _MADE):
        litellm.disable_stop_sequence_limit = True
        litellm.suppress_debug_info = True
        litellm.main._complete_custom_providers = _opening(
            litellm.main._complete_custom_providers, provider
        )
        ProxyException.__init__ = _carrying(ProxyException.__init__)
        ProxyException.to_dict = _speaking(ProxyException.to_dict)
        if importlib.util.find_spec("prisma") is None:
            for name in list(vars(PrismaDBExceptionHandler)):
                if name.startswith("is_"):
                    setattr(PrismaDBExceptionHandler, name, staticmethod(lambda _: False))
        litellm_pre_call_utils._normalized_metadata_object = cleaning(
            litellm_pre_call_utils._normalized_metadata_object
        )
        for handler in HANDLERS:
            handler.process_input_messages = process_input_messages
        hold()
        setattr(litellm.main, _MADE, True)
    return provider


def _opening(original: Callable[[Any], Any], provider: CustomLLM) -> Callable[[Any], Any]:
    """Open our provider's streams up to their first chunk before LiteLLM starts the response."""

    @functools.wraps(original)
    def complete(ctx: Any) -> Any:
        ours = ctx.custom_llm_provider == PROVIDER and ctx.acompletion and ctx.stream
        return _open(provider, ctx) if ours else original(ctx)

    return complete


async def _open(provider: CustomLLM, ctx: Any) -> PassThroughStream:
    chunks = provider.astreaming(
        model=ctx.model,
        messages=ctx.messages,
        api_base=ctx.api_base,
        api_key=ctx.api_key,
        optional_params=ctx.optional_params,
        litellm_params=ctx.litellm_params,
        logging_obj=ctx.logging,
    )
    first = await anext(chunks)
    return PassThroughStream(
        first,
        chunks,
        model=ctx.model,
        custom_llm_provider=ctx.custom_llm_provider,
        logging_obj=ctx.logging,
    )


def _carrying(original: Callable[..., None]) -> Callable[..., None]:
    """Copy our error to a ProxyException, which LiteLLM creates while it handles that error. In the
    middle of a stream LiteLLM keeps only message, type, param and status."""

    @functools.wraps(original)
    def init(self: ProxyException, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        setattr(self, CARRIED, optional(sys.exception(), CARRIED))

    return init


def _speaking(original: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
    @functools.wraps(original)
    def to_dict(self: ProxyException) -> dict[str, Any]:
        error = optional(self, CARRIED)
        return original(self) if error is None else error.body()["error"]

    return to_dict


WHOLE = "toolgate_response"
"""Attribute of a logging object that holds the streamed response, for LiteLLM's log events."""


class PassThroughStream(CustomStreamWrapper):  # type: ignore[misc]  # LiteLLM's types are not read
    """Passes chunks on unchanged, and sends LiteLLM's log event at the end.

    `first` was already taken from `chunks`. LiteLLM's router and proxy recognise streams by the
    base class, which closes `completion_stream` when the client disconnects.
    """

    def __init__(
        self,
        first: ModelResponseStream,
        chunks: AsyncGenerator[ModelResponseStream, None],
        **stock: Any,
    ) -> None:
        super().__init__(completion_stream=chunks, **stock)
        self._first: ModelResponseStream | None = first
        self.sent_first_chunk = True
        now = self.logging_obj.completion_start_time = datetime.datetime.now()
        self.logging_obj.model_call_details["completion_start_time"] = now

    async def __anext__(self) -> ModelResponseStream:
        first, self._first = self._first, None
        try:
            chunk = await anext(self.completion_stream) if first is None else first
        except StopAsyncIteration:
            self._log_success()
            raise
        except Exception as error:
            in_background(
                self.logging_obj.dispatch_failure_handlers(
                    error, traceback.format_exc(), prefer_async_handlers=True
                )
            )
            raise
        self.chunks.append(chunk)  # LiteLLM bills an aborted stream by its chunks
        # They identify the deployment; without them LiteLLM looks it up for each chunk.
        chunk._hidden_params = self._hidden_params
        return chunk

    def _log_success(self) -> None:
        whole = optional(self.logging_obj, WHOLE)
        if optional(self.logging_obj, "_on_deferred_stream_complete") is not None:
            self.logging_obj._deferred_stream_complete_args = (whole, False)
            return
        in_background(
            self.logging_obj.dispatch_success_handlers(
                whole, cache_hit=False, start_time=None, end_time=None, prefer_async_handlers=True
            )
        )
