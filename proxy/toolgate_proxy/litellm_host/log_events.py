"""The log events that LiteLLM's handler would have created for a request on our own route, by
LiteLLM's own functions. An error in one is logged and does not end the gateway."""

from __future__ import annotations

import datetime
import logging
import traceback
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from functools import wraps
from typing import Any, ParamSpec

import litellm.utils
import orjson
from litellm.proxy._types import UserAPIKeyAuth
from litellm.proxy.common_request_processing import ProxyBaseLLMRequestProcessing
from litellm.types.llms.openai import ResponseCompletedEvent, ResponsesAPIResponse
from litellm.types.utils import ModelResponse

from toolgate_core.errors import ToolgateError

from ..api.surface import Surface, is_streamed
from ..background import in_background
from ..context import RequestContext
from . import database
from .errors import HostRefused, host_error, own_error
from .fallbacks import Fallbacks, without_model
from .hooks import POST_CALL, has, loggers_having, wants_events, without_inert
from .observer import Observer
from .private_names import either
from .request_data import RequestData, headers_of, litellm_headers, request_of
from .response_forms import completion_of
from .router import litellm_proxy

logger = logging.getLogger("toolgate")
P = ParamSpec("P")


def contained(event: Callable[P, Awaitable[object]]) -> Callable[P, Coroutine[Any, Any, None]]:
    """Log the errors of a log event, which must not end the gateway."""

    @wraps(event)
    async def logged(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            await event(*args, **kwargs)
        except Exception as problem:  # noqa: BLE001
            logger.warning("A log event of LiteLLM failed (%s).", type(problem).__name__)

    return logged


class LogEvents(Observer):
    """Those of one request. `reads`: hooks read the response before it is sent."""

    def __init__(self, data: RequestData, fallbacks: Fallbacks, *, reads: bool = False) -> None:
        self._data = data
        self._fallbacks = fallbacks
        self.reads = reads
        self.routed = False
        """LiteLLM's router chose the deployment."""
        self._first_event: datetime.datetime | None = None
        """Of a stream."""
        self._made: Any = None
        """LiteLLM's object of a whole response, once it has its cost."""
        self._failure_hook_done = False

    def note_first_event(self) -> None:
        if self._first_event is None:
            self._first_event = datetime.datetime.now()

    @contained
    async def describe(self, error: ToolgateError | None = None) -> None:
        """Note LiteLLM's headers of a stream, or of an error. Never raises."""
        made = await litellm_headers(self._data, self._model)
        raised = headers_of(error.__cause__) if isinstance(error, HostRefused) else {}
        self._data.context.notes.host_headers = {**raised, **made}

    @contained
    async def completed(self, whole: Mapping[str, Any]) -> None:
        """Note LiteLLM's headers of a whole response, before it is sent. Never raises."""
        self._made = await self._priced(whole, False, datetime.datetime.now())
        made = await litellm_headers(self._data, self._model, self._made)
        self._data.context.notes.host_headers = made

    async def replaced(self, error: ToolgateError) -> ToolgateError:
        """Note LiteLLM's headers, and run `async_post_call_failure_hook`. Return the error that it
        returns instead, or `error`. Never raises."""
        await self.describe(error)
        if not has(*POST_CALL):
            return error
        try:
            raised = self._raised(error, self._data.body.get("model") or "")
            replacement = await litellm_proxy().proxy_logging_obj.post_call_failure_hook(
                request_data=await self._data.prepared(),
                original_exception=raised,
                user_api_key_dict=self._data.caller,
                traceback_str="".join(traceback.format_exception_only(raised)),
            )
        except Exception as problem:  # noqa: BLE001  a hook must not end the gateway
            logger.warning("A hook of LiteLLM failed (%s).", type(problem).__name__)
            return error
        self._failure_hook_done = True
        return error if replacement is None else own_error(replacement)

    async def fallback_failed(self, model: str) -> None:
        await self.fallback_ended(model, "log_failure_fallback_event")

    @contained
    async def fallback_ended(self, model: str, event: str) -> None:
        """Create LiteLLM's event of a fallback that responded or failed. Never raises."""
        first, error = self._fallbacks.first.model, self._fallbacks.first_error
        assert error is not None  # without it there is no fallback
        for callback in loggers_having(event):
            await contained(getattr(callback, event))(
                original_model_group=first,
                kwargs={**await self._data.prepared(), "model": model},
                original_exception=host_error(error, first),
            )

    def _raised(self, error: ToolgateError, model: str) -> Exception:
        if isinstance(error, HostRefused) and isinstance(error.__cause__, Exception):
            return error.__cause__  # the exception of a callback or of LiteLLM
        return host_error(error, model, ours=self._data.row is not None)

    @contained
    async def _succeeded(self, whole: Mapping[str, Any]) -> None:
        """Create the success event. `whole`: the response body. Never raises."""
        ended, response = datetime.datetime.now(), self._made
        stream = is_streamed(self._data.body)
        if response is None:
            response = await self._priced(whole, stream, ended)
        data, log, began = await self._data.prepared(), self._data.logging, self._data.began
        if stream:
            log.completion_start_time = self._first_event or ended
            log.model_call_details["completion_start_time"] = log.completion_start_time
        if not self.routed:
            counted = not self._data.is_ours or database.has_database()
            without_inert(log, counted=counted)
        hit = self._data.context.notes.cache_key is not None
        await log.dispatch_success_handlers(
            response,
            start_time=began,
            end_time=ended,
            cache_hit=hit if stream else hit or None,
            prefer_async_handlers=True,
        )
        hooks = litellm_proxy().proxy_logging_obj
        await hooks.update_request_status(litellm_call_id=log.litellm_call_id, status="success")
        if has(*POST_CALL) and not self.reads:
            await hooks.post_call_success_hook(
                data=data, user_api_key_dict=self._data.caller, response=response
            )

    async def _priced(
        self, whole: Mapping[str, Any], stream: bool, ended: datetime.datetime
    ) -> Any:
        """Return LiteLLM's object of a response, with its cost."""
        data = await self._data.described(self._model, stream=stream)
        log = self._data.logging
        log.model_call_details["cache_hit"] = self._data.context.notes.cache_key is not None
        response = _response(self._data.call_type, whole, stream=stream)
        params = self._data.row["litellm_params"] if self._data.row is not None else {}
        litellm.utils.update_response_metadata(
            result=getattr(response, "response", response),  # of the last event of a stream
            logging_obj=log,
            model=params.get("model"),
            kwargs={**data, "api_base": params.get("api_base")},
            start_time=self._data.began,
            end_time=ended,
        )
        return response

    @contained
    async def _failed(self, error: ToolgateError) -> None:
        """Create the failure event, after the release of what LiteLLM reserved. Never raises."""
        if not self._data.is_ours:
            await database.release_budget(self._data.caller)
        raised, trace = await self.log_failure(self._model, error)
        if not self._failure_hook_done:
            await litellm_proxy().proxy_logging_obj.post_call_failure_hook(
                request_data=await self._data.prepared(),
                original_exception=raised,
                user_api_key_dict=self._data.caller,
                traceback_str=trace,
            )

    async def log_failure(self, model: str, error: ToolgateError) -> tuple[Exception, str]:
        await self._data.described(model, stream=is_streamed(self._data.body))
        raised = self._raised(error, model)
        trace = "".join(traceback.format_exception_only(raised))
        await self._data.logging.dispatch_failure_handlers(
            raised, trace, prefer_async_handlers=True
        )
        # LiteLLM before 1.106 does not note it for streams.
        self._data.logging.model_call_details["has_logged_async_failure"] = True
        return raised, trace

    def report_success(self, whole: Mapping[str, Any]) -> None:
        """Create the success event in the background. `whole`: the response body."""
        if not self._data.is_ours:
            database.leave_budget_to_event(self._data.caller)
        in_background(self._succeeded(whole))

    def report_failure(self, error: ToolgateError) -> None:
        """Create the failure event in the background."""
        if not self._data.is_ours:
            # It is released here, and not by LiteLLM's middleware.
            database.leave_budget_to_event(self._data.caller)
        in_background(self._failed(error))

    async def with_cost(self, events: bytes) -> bytes:
        if not litellm.include_cost_in_streaming_usage or b'"usage"' not in events:
            return events
        await self._data.described(self._model, stream=True)
        add = either(ProxyBaseLLMRequestProcessing, "process_chunk_with_cost_injection")
        frames = (frame + b"\n\n" for frame in events.split(b"\n\n") if frame)
        return b"".join([add(frame, self._model, self._data.logging) for frame in frames])

    @property
    def _model(self) -> str:
        """The name in the router of the model of ours at which the request is."""
        return self._fallbacks.route.model


def _response(call_type: str, whole: Mapping[str, Any], *, stream: bool) -> Any:
    """Return LiteLLM's object of a response; in a Responses stream it is that of the last event."""
    if call_type == "anthropic_messages":
        return ModelResponse(**completion_of(whole))
    if call_type != "aresponses":
        return ModelResponse(**whole)
    # Parts of the tools are those of all requests that have them, and callbacks may change these.
    own = {"tools": orjson.loads(orjson.dumps(whole["tools"]))} if "tools" in whole else {}
    response = ResponsesAPIResponse(**{**whole, **own})
    if not stream:
        return response
    return ResponseCompletedEvent(type="response.completed", response=response)


def report_refused(
    surface: Surface,
    scope: MutableMapping[str, Any],
    context: RequestContext,
    error: ToolgateError,
) -> None:
    """Send LiteLLM's log event of a request that was refused before its model was known."""
    if wants_events():
        context.call_id = context.call_id or uuid.uuid4().hex
        caller = UserAPIKeyAuth(request_route=scope["path"])
        data = RequestData(request_of(scope), caller, {}, surface, context)
        in_background(LogEvents(data, without_model())._failed(error))
