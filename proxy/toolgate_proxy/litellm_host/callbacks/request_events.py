"""LiteLLM's hooks and log events for a request on our own route, which its handler would have run
and created, by its own functions. `before` runs the pre-call hooks, and `report` creates the log
event after the response was sent. An error in one is logged and does not end the gateway."""

from __future__ import annotations

import datetime
import logging
import traceback
import uuid
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import ExitStack
from functools import wraps
from typing import Any, ParamSpec

from litellm.proxy._types import UserAPIKeyAuth
from litellm.types.utils import CallTypes

from toolgate_core.errors import ClientDisconnected, ToolgateError

from ...api.surface import ApiResponse, Surface, is_streamed
from ...background import in_background
from ...chat.failover import Events
from ...context import Guard, RequestContext
from ...request.chat_request import ChatRequest
from .. import database
from ..errors import PROVIDER, HostRefused, host_error, own_error, own_errors
from ..hooks import (
    BEFORE_DEPLOYMENT,
    POST_CALL,
    has,
    having,
    loggers_having,
    wants_events,
    without_inert,
)
from ..routing.fallbacks import Fallbacks, without_model
from ..routing.observer import Observer
from ..routing.router import Row, SlotHolder, within_limits
from .request_data import GUARDRAILS, RequestData, headers_of, litellm_headers, request_of
from .response_hooks import ResponseHooks, hooks

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


class RequestEvents(Observer):
    """Hooks and events of one request. `reads`: hooks read the response before it is sent."""

    def __init__(self, data: RequestData, fallbacks: Fallbacks, *, reads: bool = False) -> None:
        self._data = data
        self._fallbacks = fallbacks
        self.reads = reads
        self._guard = ResponseHooks(data) if reads else None
        data.context.meter.is_logged = True
        self._routed = False
        """LiteLLM's router chose the deployment."""
        self._of_fallback: Mapping[str, Any] | None = None
        """The body for the fallback at which the request is, once the hooks got it."""
        self._response: ApiResponse | None = None
        """With the events so far, once a backend responds."""
        self._made: Any = None
        """LiteLLM's object of a whole response, once it has its cost."""
        self._failure_hook_done = False

    @property
    def has_refused(self) -> bool:
        return self._guard is not None and self._guard.has_refused

    @property
    def stays(self) -> bool:
        return self._data.stays

    async def before(self, body: Mapping[str, Any], guardrails: Sequence[Any]) -> Mapping[str, Any]:
        if self._data.is_ours and not self._fallbacks.route.hooks:
            return body
        with own_errors():
            await self._data.require(guardrails)
            return await self._hooked(self._data.body)

    def start(self) -> None:
        if self._guard is not None:
            self._guard.start()

    async def at_model(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        fallback, guardrails = self._fallbacks.current, self._fallbacks.route.guardrails
        if fallback is None:
            return body
        if self._of_fallback is None:
            if self._data.lacks(guardrails, fallback.parameters):
                body = await self._before_fallback(body, guardrails)
            self._of_fallback = body
        return self._of_fallback

    async def _before_fallback(
        self, body: Mapping[str, Any], guardrails: Sequence[Any]
    ) -> Mapping[str, Any]:
        """Run the hooks again, as LiteLLM's handler does for another provider's model."""
        with own_errors() if self._guard is None else self._guard.noting_refusals():
            await self._data.at_fallback(body)
            await self._data.require(guardrails)
            changed = await self._hooked(body)
        self.start()
        return {**changed, "model": body["model"]}

    async def before_deployment(self, body: Mapping[str, Any], row: Row) -> Mapping[str, Any]:
        if not (callbacks := having(BEFORE_DEPLOYMENT)):
            return body
        params = row["litellm_params"]
        deployment: dict[str, Any] = {"model": params["model"], "custom_llm_provider": PROVIDER}
        if params.get(GUARDRAILS):
            deployment[GUARDRAILS] = params[GUARDRAILS]
        changed = {**await self._data.prepare(), **self._data.seen(body), **deployment}
        with own_errors():
            for callback in callbacks:
                call_type = CallTypes(self._data.call_type)
                left = await callback.async_pre_call_deployment_hook(changed, call_type)
                changed = changed if left is None else left
        kept = {name: body[name] for name in ("model", "stream", GUARDRAILS) if name in body}
        return {**self._data.as_in(changed, body), **kept}

    async def guard(self, body: Mapping[str, Any]) -> Guard | None:
        if not (self._fallbacks.route.hooks or self.reads):
            return None
        errors = own_errors if self._guard is None else self._guard.noting_refusals
        return await self._data.guard(body, errors)

    async def _hooked(self, body: Mapping[str, Any]) -> dict[str, Any]:
        data = await self._data.prepare()
        changed = await hooks().pre_call_hook(
            user_api_key_dict=self._data.caller, data=data, call_type=self._data.call_type
        )
        return self._data.take(changed if isinstance(changed, dict) else data, body)

    async def choose(self, messages: object, hold_slot: SlotHolder, held: ExitStack) -> Row:
        self._routed = True
        row = await within_limits(
            self._model, await self._data.prepare(), messages, hold_slot, held
        )
        self.note_deployment(row)
        data = await self._data.describe(self._model, stream=is_streamed(self._data.body))
        self._data.logging.pre_call(data.get("messages"), None)  # strategies count by it
        return row

    def note_deployment(self, row: Row) -> None:
        self._data.row = row

    async def note_answer(self, row: Row, *, stream: bool) -> None:
        self.note_deployment(row)
        if stream:
            await self.describe()

    def begin(self, response: ApiResponse) -> None:
        self._response, response.logged = response, True

    async def with_cost(self, events: bytes) -> bytes:
        return await self._data.with_cost(events, self._model)

    def frames(
        self, stream: ApiResponse, events: Events, request: ChatRequest
    ) -> AsyncGenerator[bytes, None]:
        assert self._guard is not None  # hooks read the response
        frames = self._own_frames(stream, events)
        return self._guard.stream(frames, stream, self._model, request)

    async def show_whole(self, whole: ApiResponse, request: ChatRequest) -> Mapping[str, Any]:
        body: Mapping[str, Any]
        if self._guard is None:
            body = await super().show_whole(whole, request)
        else:
            body = await self._guard.body(whole, self._model, request)
        await self.completed(body)
        return body

    @contained
    async def describe(self, error: ToolgateError | None = None) -> None:
        """Note LiteLLM's headers of a stream, or of an error. Never raises."""
        headers = await litellm_headers(self._data, self._model)
        raised = headers_of(error.__cause__) if isinstance(error, HostRefused) else {}
        self._data.context.notes.host_headers = {**raised, **headers}

    @contained
    async def completed(self, whole: Mapping[str, Any]) -> None:
        """Note LiteLLM's headers of a whole response, before it is sent. Never raises."""
        self._made = await self._data.price(whole, self._model, datetime.datetime.now())
        headers = await litellm_headers(self._data, self._model, self._made)
        self._data.context.notes.host_headers = headers

    async def replace_error(self, error: ToolgateError) -> ToolgateError:
        """Note LiteLLM's headers, and run `async_post_call_failure_hook`. Return the error that it
        returns instead, or `error`. Never raises."""
        await self.describe(error)
        if not has(*POST_CALL):
            return error
        try:
            raised = self._raised(error, self._data.body.get("model") or "")
            replacement = await self._failure_hook(raised)
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
                kwargs={**await self._data.prepare(), "model": model},
                original_exception=host_error(error, first),
            )

    def restart(self) -> None:
        self._response = None

    async def report_fallback(self, failed: str, error: ToolgateError) -> None:
        """Create the failure event of a model, after which the request is at a fallback. LiteLLM
        logs only the first failure of a request. Never raises."""
        await contained(self._log_failure)(failed, error)
        self.restart()
        self._routed, self._of_fallback = False, None
        self._data.next_model(self._fallbacks)

    def report(self, failed: ToolgateError | None, *, begun: bool) -> None:
        fallbacks = self._fallbacks
        if self._guard is not None:
            self._guard.end()
        if fallbacks.current is not None and failed is None:
            in_background(self.fallback_ended(fallbacks.model, "log_success_fallback_event"))
        if fallbacks.is_litellms:
            return  # its handler has sent the event
        begun = begun or self._data.context.meter.completion_tokens > 0  # of a whole response
        left = isinstance(failed, ClientDisconnected) and begun
        if self._response is not None and (failed is None or left):
            guarded = self._guard and self._guard.shown
            event = self._succeeded(guarded or self._response.body())
        elif failed is not None:
            event = self._failed(failed)
        else:
            return
        if not self._data.is_ours:  # otherwise LiteLLM's middleware releases it now
            database.leave_budget_to_event(self._data.caller)
        in_background(event)

    async def _own_frames(self, stream: ApiResponse, events: Events) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a stream."""
        async for pieces in events:
            if data := stream.events(pieces):
                yield data
        self._data.context.meter.complete = True
        yield stream.end()

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
            response = await self._data.price(whole, self._model, ended, stream=stream)
        data, log, began = await self._data.prepare(), self._data.logging, self._data.began
        if stream:
            outcome, first = self._data.context.outcome, ended
            if (seconds := outcome.first_event_seconds) is not None:
                first = datetime.datetime.fromtimestamp(outcome.arrived + seconds)
            log.completion_start_time = log.model_call_details["completion_start_time"] = first
        if not self._routed:
            without_inert(log, is_ours=self._data.is_ours)
        await log.dispatch_success_handlers(
            response,
            start_time=began,
            end_time=ended,
            cache_hit=False if stream else None,
            prefer_async_handlers=True,
        )
        await hooks().update_request_status(litellm_call_id=log.litellm_call_id, status="success")
        if has(*POST_CALL) and not self.reads:
            await hooks().post_call_success_hook(
                data=data, user_api_key_dict=self._data.caller, response=response
            )

    @contained
    async def _failed(self, error: ToolgateError) -> None:
        """Create the failure event, after the release of what LiteLLM reserved. Never raises."""
        if not self._data.is_ours:
            await database.release_budget(self._data.caller)
        raised = await self._log_failure(self._model, error)
        if not self._failure_hook_done:
            await self._failure_hook(raised)

    async def _log_failure(self, model: str, error: ToolgateError) -> Exception:
        await self._data.describe(model, stream=is_streamed(self._data.body))
        raised, log = self._raised(error, model), self._data.logging
        await log.dispatch_failure_handlers(raised, _trace(raised), prefer_async_handlers=True)
        return raised

    async def _failure_hook(self, raised: Exception) -> Any:
        """Return the error that `async_post_call_failure_hook` returns instead, if it does."""
        return await hooks().post_call_failure_hook(
            request_data=await self._data.prepare(),
            original_exception=raised,
            user_api_key_dict=self._data.caller,
            traceback_str=_trace(raised),
        )

    @property
    def _model(self) -> str:
        """The name in the router of the model of ours at which the request is."""
        return self._fallbacks.route.model


def _trace(raised: Exception) -> str:
    return "".join(traceback.format_exception_only(raised))


def report_refused(
    surface: Surface, scope: MutableMapping[str, Any], context: RequestContext, error: ToolgateError
) -> None:
    """Send LiteLLM's log event of a request that was refused before its model was known."""
    if wants_events():
        context.call_id = context.call_id or uuid.uuid4().hex
        caller = UserAPIKeyAuth(request_route=scope["path"])
        data = RequestData(request_of(scope), caller, {}, surface, context)
        in_background(RequestEvents(data, without_model())._failed(error))
