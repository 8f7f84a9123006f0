"""LiteLLM's hooks for a request on our own route. `before` runs the pre-call hooks, and `report`
creates the log event after the response was sent."""

from __future__ import annotations

import logging
from collections.abc import (
    AsyncGenerator,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import ExitStack
from typing import Any

from litellm.types.utils import CallTypes

from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import ClientDisconnected, ToolgateError

from ..api.surface import Stream, Whole, is_streamed
from ..background import in_background
from ..chat.failover import Events
from ..chat.response import ResponseEvent
from .errors import PROVIDER, own_errors
from .fallbacks import Fallbacks
from .guardrail_inputs import PROMPT, TOOLS
from .hooks import (
    BEFORE_DEPLOYMENT,
    having,
)
from .log_events import LogEvents, contained
from .request_data import GUARDRAILS, RequestData
from .response_hooks import ResponseHooks
from .router import Row, Taken, litellm_proxy, within_limits

logger = logging.getLogger("toolgate")


class RequestEvents(LogEvents):
    """Hooks and events of one request. `reads`: hooks read the response before it is sent."""

    def __init__(self, data: RequestData, fallbacks: Fallbacks, *, reads: bool = False) -> None:
        super().__init__(data, fallbacks, reads=reads)
        self._guard = ResponseHooks(data) if reads else None
        self._of_fallback: Mapping[str, Any] | None = None
        """The body for the fallback at which the request is, once the hooks got it."""
        self._whole: Callable[[], Whole] | None = None
        """Makes the response, once a backend responds."""
        self._pieces: list[ResponseEvent] = []
        """The events of a streamed response."""

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
            unseen = fallback.parameters.keys() & {*PROMPT, TOOLS}
            if unseen or self._data.lacks(guardrails):
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
        changed = {**await self._data.prepared(), **self._data.seen(body), **deployment}
        with own_errors():
            for callback in callbacks:
                call_type = CallTypes(self._data.call_type)
                left = await callback.async_pre_call_deployment_hook(changed, call_type)
                changed = changed if left is None else left
        kept = {name: body[name] for name in ("model", "stream", GUARDRAILS) if name in body}
        return {**self._data.as_in(changed, body), **kept}

    async def _hooked(self, body: Mapping[str, Any]) -> dict[str, Any]:
        data = await self._data.prepared()
        changed = await litellm_proxy().proxy_logging_obj.pre_call_hook(
            user_api_key_dict=self._data.caller, data=data, call_type=self._data.call_type
        )
        return self._data.take(changed if isinstance(changed, dict) else data, body)

    async def choose(self, messages: object, taken: Taken, held: ExitStack) -> Row:
        self.routed = True
        row = await within_limits(self._model, await self._data.prepared(), messages, taken, held)
        self.chosen(row)
        data = await self._data.described(self._model, stream=is_streamed(self._data.body))
        self._data.logging.pre_call(data.get("messages"), None)  # strategies count by it
        return row

    def chosen(self, row: Row) -> None:
        self._data.row = row

    async def answers(self, row: Row, *, stream: bool) -> None:
        self.chosen(row)
        if stream:
            await self.describe()

    def begin(self, whole: Callable[[], Whole]) -> None:
        self._whole = whole

    def note(self, pieces: Iterable[ResponseEvent]) -> None:
        self._pieces += pieces

    def frames(
        self, stream: Stream, events: Events, request: ChatRequest
    ) -> AsyncGenerator[bytes, None]:
        assert self._guard is not None  # hooks read the response
        own = self._own_frames(stream, events)
        return self._guard.stream(own, self._collected, self._model, request)

    async def shown(self, whole: Whole, request: ChatRequest) -> Mapping[str, Any]:
        body: Mapping[str, Any]
        if self._guard is None:
            body = await super().shown(whole, request)
        else:
            body = await self._guard.body(whole, self._model, request)
        await self.completed(body)
        return body

    def restart(self) -> None:
        self._whole, self._pieces = None, []

    async def goes_on(self, failed: str, error: ToolgateError) -> None:
        """Create the failure event of a model, after which the request is at a fallback. LiteLLM
        logs only the first failure of a request. Never raises."""
        await contained(self.log_failure)(failed, error)
        self.restart()
        self.routed, self._of_fallback = False, None
        self._data.next_model(self._fallbacks)

    def report(self, failed: ToolgateError | None, *, begun: bool) -> None:
        fallbacks = self._fallbacks
        if self._guard is not None:
            self._guard.end()
        if fallbacks.current is not None and failed is None:
            in_background(self.fallback_ended(fallbacks.model, "log_success_fallback_event"))
        if fallbacks.is_litellms:
            return  # its handler has sent the event
        left = isinstance(failed, ClientDisconnected) and begun
        if self._whole is not None and (failed is None or left):
            shown = self._guard and self._guard.shown
            self.report_success(shown or self._collected().body())
        elif failed is not None:
            self.report_failure(failed)

    def _collected(self) -> Whole:
        """Return the response with the events so far."""
        assert self._whole is not None  # it has begun
        whole = self._whole()
        whole.add(self._pieces)
        return whole

    async def _own_frames(self, stream: Stream, events: Events) -> AsyncGenerator[bytes, None]:
        """Keep the events of a stream and yield its bytes."""
        async for pieces in events:
            self.note(pieces)
            if data := stream.events(pieces):
                yield data
        self._data.context.meter.complete = True
        yield stream.end()
