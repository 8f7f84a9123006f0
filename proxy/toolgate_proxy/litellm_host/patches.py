"""Every touch of a name of LiteLLM's that is not documented for providers; those that let a stream
be bytes are in unread.py.

Lines are those of LiteLLM 1.106.2, below its package. `register` makes the touches, once a process;
each has a test in tests/proxy/test_litellm_host.py that fails when the host moves.

- litellm/main.py:5011 `_complete_custom_providers` wraps a provider's stream in the stock
  `CustomStreamWrapper`, which guesses usage, mixes up the choices of n > 1, drops logprobs, and
  opens the stream only once the response has begun, when no error can have its status any more.
- litellm/main.py:5676 calls `get_optional_params`, which refuses OpenAI parameters that it does
  not know a provider to take (reasoning_effort, verbosity …): ours takes or refuses them itself.
- litellm/proxy/_types.py:4428 `ProxyException.to_dict` makes the error body, with the HTTP status
  for a `code` and with names of classes before the message.
- litellm/utils.py:8618 `validate_openai_optional_params` cuts `stop` to four in silence.
- litellm/utils.py:8584 `validate_chat_completion_tool_choice` refuses a tool_choice of the type
  allowed_tools.
- litellm/router.py:2951 takes `priority` for its own queue, and keeps it.
- litellm/utils.py:8493 `validate_and_fix_openai_tools` drops tools that are no objects in silence.
- litellm/proxy/db/exception_handler.py:94–400 imports `prisma`, LiteLLM's database client, to tell
  whether an error is a database's: without a database, and so without prisma, a 401 became a 500.
"""

from __future__ import annotations

import asyncio
import datetime
import functools
import importlib.util
import sys
import traceback
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import litellm
import litellm.main
from litellm.litellm_core_utils.streaming_handler import CustomStreamWrapper
from litellm.llms.custom_llm import CustomLLM
from litellm.proxy._types import ProxyException
from litellm.proxy.db.exception_handler import PrismaDBExceptionHandler
from litellm.types.utils import ModelResponse, ModelResponseStream
from litellm.utils import DEFAULT_CHAT_COMPLETION_PARAM_VALUES

from toolgate_core.errors import ToolgateError

from ..frames import Frame
from . import cpython_gc_workaround as held_contexts
from . import least_busy as litellm_busy
from .raw_stream import Unread, note_for_billing, unread

PROVIDER = "toolgate"

_CARRIED = "toolgate_error"
"""Attribute by which LiteLLM's exceptions carry ours."""
_WHOLE = "toolgate_answer"
"""Attribute of a logging object: the answer that was streamed, for LiteLLM's logs."""


@dataclass(frozen=True)
class Call:
    """What of LiteLLM's arguments a provider needs (litellm/main.py:5045)."""

    model: str
    messages: list[Any]
    params: dict[str, Any]
    api_base: str | None
    api_key: str | None
    logging: Any
    litellm_params: Mapping[str, Any]
    unread: Unread | None = None
    """Where LiteLLM passes chunks on to the client without a look at them they may be bytes."""


def register(provider: CustomLLM) -> CustomLLM:
    """Makes LiteLLM fit to host the provider. Returns the provider."""
    if not hasattr(litellm.main, "_toolgate_registered"):
        litellm.disable_stop_sequence_limit = True
        litellm.suppress_debug_info = True
        litellm.main._complete_custom_providers = _opening(litellm.main._complete_custom_providers)
        litellm.main.get_optional_params = _allowing(litellm.main.get_optional_params)
        litellm.main.validate_chat_completion_tool_choice = _allowing_tools(
            litellm.main.validate_chat_completion_tool_choice
        )
        ProxyException.__init__ = _carrying(ProxyException.__init__)
        ProxyException.to_dict = _speaking(ProxyException.to_dict)
        if importlib.util.find_spec("prisma") is None:
            for name in list(vars(PrismaDBExceptionHandler)):
                if name.startswith("is_"):
                    setattr(PrismaDBExceptionHandler, name, staticmethod(_no_database))
        held_contexts.hold()
        litellm.main._toolgate_registered = True
    return provider


def read_call(kwargs: Mapping[str, Any]) -> Call:
    params = dict(kwargs["optional_params"])
    params |= params.pop("extra_body", None) or {}
    sent = (kwargs["litellm_params"].get("proxy_server_request") or {}).get("body") or {}
    tools = sent.get("tools")
    if tools and not (isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)):
        params["tools"] = tools  # LiteLLM dropped what is no object; admission refuses it by name
    if "priority" in sent:
        params["priority"] = sent["priority"]
    return Call(
        model=kwargs["model"],
        messages=kwargs["messages"],
        params=params,
        api_base=kwargs["api_base"],
        api_key=kwargs["api_key"],
        logging=kwargs["logging_obj"],
        litellm_params=kwargs["litellm_params"],
        unread=unread(kwargs["litellm_params"]),
    )


def carried(exception: object) -> ToolgateError | None:
    """Our error that one of LiteLLM's exceptions carries."""
    return getattr(exception, _CARRIED, None)


def carry(exception: Any, error: ToolgateError) -> Any:
    """LiteLLM's exception, which answers with our error's body."""
    setattr(exception, _CARRIED, error)
    return exception


@contextmanager
def errors_raised(call: Call) -> Iterator[None]:
    """Raises our errors as LiteLLM's, which keep them, so that its router can tell them apart."""
    try:
        yield
    except ToolgateError as error:
        raise host_error(error, call.model) from error


def note_for_logs(call: Call, whole: ModelResponse) -> None:
    """Leaves the answer that was streamed where LiteLLM's logging finds it."""
    setattr(call.logging, _WHOLE, whole)


class PassThroughStream(CustomStreamWrapper):  # type: ignore[misc]  # LiteLLM's types are not read
    """The provider's chunks as they are, with LiteLLM's logs at the end.

    `first` has been taken from `chunks` already. The stock class counts as a stream to the router
    and the proxy by its type, and closes `completion_stream` when the client goes.
    """

    def __init__(
        self,
        first: ModelResponseStream | Frame,
        chunks: AsyncGenerator[ModelResponseStream | Frame, None],
        **stock: Any,
    ) -> None:
        super().__init__(completion_stream=chunks, **stock)
        self._first: ModelResponseStream | Frame | None = first
        self.sent_first_chunk = True
        self.logging_obj.update_completion_start_time(completion_start_time=datetime.datetime.now())

    async def __anext__(self) -> ModelResponseStream | Frame:
        first, self._first = self._first, None
        try:
            chunk = await anext(self.completion_stream) if first is None else first
        except StopAsyncIteration:
            self._log_success()
            self._restore_consumer_correlation_context()
            raise
        except Exception as error:
            _log_failure(self.logging_obj, error)
            self._restore_consumer_correlation_context()
            raise
        note_for_billing(self.chunks, chunk, self.model)
        # By these LiteLLM knows the deployment; without them it would look it up for each chunk.
        chunk._hidden_params = self._hidden_params
        return chunk

    def _log_success(self) -> None:
        """As litellm/litellm_core_utils/streaming_handler.py:2195."""
        whole = getattr(self.logging_obj, _WHOLE, None)
        if getattr(self.logging_obj, "_on_deferred_stream_complete", None) is not None:
            self.logging_obj._deferred_stream_complete_args = (whole, False)
            return
        _in_background(
            self.logging_obj.dispatch_success_handlers(
                whole, cache_hit=False, start_time=None, end_time=None, prefer_async_handlers=True
            )
        )


def _opening(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Our streams are opened, up to their first chunk, before LiteLLM answers at all."""

    @functools.wraps(original)
    def complete(ctx: Any) -> Any:
        if ctx.custom_llm_provider != PROVIDER or not ctx.acompletion:
            return original(ctx)
        answer = _open(ctx) if ctx.stream else original(ctx)
        return litellm_busy.until_left(answer, ctx.logging)

    return complete


async def _open(ctx: Any) -> PassThroughStream:
    chunks = provider().astreaming(
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


def provider() -> Any:
    """Ours, as litellm/main.py:5032 finds it."""
    handlers = [
        item["custom_handler"]
        for item in litellm.custom_provider_map
        if item["provider"] == PROVIDER
    ]
    return handlers[-1]


def _allowing(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def get_optional_params(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("custom_llm_provider") == PROVIDER:
            kwargs["allowed_openai_params"] = list(DEFAULT_CHAT_COMPLETION_PARAM_VALUES)
        return original(*args, **kwargs)

    return get_optional_params


def _allowing_tools(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def validate(tool_choice: Any = None, model: str = "") -> Any:
        if isinstance(tool_choice, dict) and tool_choice.get("type") == "allowed_tools":
            return tool_choice
        return original(tool_choice=tool_choice, model=model)

    return validate


def _carrying(original: Callable[..., None]) -> Callable[..., None]:
    """LiteLLM makes a ProxyException of an error while it handles that error; in mid-stream it
    passes on no more of it than message, type, param and status."""

    @functools.wraps(original)
    def init(self: ProxyException, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        setattr(self, _CARRIED, getattr(sys.exception(), _CARRIED, None))

    return init


def _speaking(original: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
    @functools.wraps(original)
    def to_dict(self: ProxyException) -> dict[str, Any]:
        error = getattr(self, _CARRIED, None)
        return original(self) if error is None else error.body()["error"]

    return to_dict


def _no_database(error: Exception) -> bool:
    """Whether a database is at fault: never, where there is none."""
    return False


def host_error(error: ToolgateError, model: str, *, ours: bool = True) -> Exception:
    """LiteLLM's exception of the error's status, which its router and its logs go by."""
    # LiteLLM logs what names no provider as the client's own fault: one line, no traceback.
    provider = PROVIDER if ours and error.status >= 500 else None
    about = {"message": error.message, "model": model, "llm_provider": provider}
    host: Any
    if error.status < 500:
        host = litellm.BadRequestError(**about)
    elif error.status == 503:
        host = litellm.ServiceUnavailableError(**about)
    elif error.status == 504:
        host = litellm.Timeout(**about)
    else:
        host = litellm.InternalServerError(**about)
    host.message, host.status_code = error.message, error.status
    host.type, host.param = error.type, error.param
    host.headers = {"retry-after": str(error.retry_after)} if error.retry_after else {}
    raised: Exception = carry(host, error)
    return raised


def _log_failure(logging: Any, error: Exception) -> None:
    _in_background(
        logging.dispatch_failure_handlers(error, traceback.format_exc(), prefer_async_handlers=True)
    )


_background: set[asyncio.Task[Any]] = set()


def _in_background(work: Coroutine[Any, Any, Any]) -> None:
    """Logs must not hold the answer back. The set keeps the tasks from being collected."""
    task = asyncio.create_task(work)
    _background.add(task)
    task.add_done_callback(_background.discard)
