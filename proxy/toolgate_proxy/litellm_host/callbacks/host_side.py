"""LiteLLM's side of a request on our own route: another authentication, hooks, the choice of a
deployment, fallbacks, and the log event.

Without callbacks and with our own authentication, only the deployment is chosen.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from litellm.proxy._types import UserAPIKeyAuth
from litellm.proxy.auth.auth_utils import get_end_user_id_from_request_body
from starlette.requests import Request

from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import ClientDisconnected, GatewayMisconfigured, ToolgateError

from ...api.shared.options import check_litellms
from ...api.surface import Stream, Surface, Whole, is_streamed
from ...background import in_background
from ...chat.failover import Events
from ...chat.response import ResponseEvent
from ...context import RequestContext
from ...routing.deployments import Deployment, Placement
from .. import auth, budgets
from ..context import identity_of
from ..deployments.fallbacks import Fallback, Fallbacks, all_of, requested_fallbacks
from ..deployments.key_settings import check_settings, key_settings
from ..deployments.model_route import ModelRoute
from ..deployments.own_route import Choice, own_route
from ..deployments.router import Asker, Target, is_foreign
from ..errors import own_errors
from ..mcp_credentials import without_credentials
from .litellm_headers import model_id_of
from .request_data import GUARDRAILS, RequestData
from .request_events import Collected, RequestEvents
from .response_hooks import ResponseGuard

logger = logging.getLogger("toolgate")


class HostSide:
    """`body`: as the client sent it, with the model in it."""

    def __init__(
        self,
        surface: Surface,
        scope: MutableMapping[str, Any],
        context: RequestContext,
        route: ModelRoute,
        asker: Asker,
        body: Mapping[str, Any],
    ) -> None:
        self.model: str = body["model"]
        """The model's name as the client sent it, as a hook changed it, or that of a fallback."""
        self.body = body
        self.asker = asker
        self.is_litellms = False
        """LiteLLM's handler serves the fallback at which the request is."""
        self._surface = surface
        self._context = context
        self._is_counted = not context.caller.authenticated
        """Another authentication than ours admits the request, and counts the use of its key."""
        self._route = route
        self._first = route
        self._fallbacks = Fallbacks()
        self._of_fallback: Mapping[str, Any] | None = None
        """The body for it, once it is one of our models and the hooks got it."""
        self._choice = Choice()
        self._request = Request(without_credentials(scope))
        self._caller: UserAPIKeyAuth | None = None
        """The sender, as another authentication describes it."""
        self._events: RequestEvents | None = None
        """None if nobody observes the request."""
        self.guard: ResponseGuard | None = None
        """None if no hook reads or changes the response."""
        self.response = Collected()
        """That of the model at which the request is."""

    async def admitted(self, content: bytes) -> Mapping[str, Any]:
        """Authenticate the caller, if another authentication does it, and check that the key may
        use the model. Return the body as the hooks left it. `content`: the bytes of the body, which
        another authentication may read. Raise ToolgateError.

        With another authentication it must not be cancelled: LiteLLM may have reserved the cost of
        the request, or a slot."""
        check_litellms(self.body)
        key = self._context.caller.key
        if self._is_counted:
            self._request._body = content
            with own_errors():
                self._caller = await auth.litellm_caller(self._request, self.body)
            self._context.caller.identity = identity_of(self._caller)
            model, before = auth.model_of(self._request), self.asker
            self.asker = auth.asker(self._caller)
            if model != self.model or self.asker.team != before.team:
                self._reroute(model)
            self._fallbacks.of_key = await key_settings(self._caller)
            check_settings(self._fallbacks.of_key)
        if self._is_counted or self._route.events or self._route.hooks:
            self._events = self._observed()
        if key is not None and self.model not in (key.terms.models or (self.model,)):
            await auth.check_model(self.caller, self.model)
        values = self.body
        if self._events is not None and (self._is_counted or self._route.hooks):
            with own_errors():
                values = await self._events.before(self._route.guardrails)
            if values.get("model") != self.model:
                self._reroute(values.get("model"))
        self._fallbacks.requested = requested_fallbacks(values)
        for fallback in all_of(self._fallbacks.requested or ()):
            await auth.check_model(self.caller, fallback.model)
        return values

    def deployment(
        self, body: Mapping[str, Any], owner: str
    ) -> AbstractAsyncContextManager[Target]:
        """Hold a deployment for the request until the response has ended. `body`: with the tools as
        the prompt has them. `owner`: the key or team that sent the request. Raise
        ToolgateError."""
        return self._choice.target(self._route, body, owner, self._events)

    async def sent_to(self, target: Target, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the body as hooks before a deployment leave it. Raise ToolgateError."""
        if self._events is None:
            return body
        with own_errors():
            return await self._events.before_deployment(body, target.row)

    def alternatives(self, tried: Deployment) -> list[Placement]:
        """Return the other placements of the model."""
        return self._choice.alternatives(self._route, tried)

    async def fall_back(self, error: ToolgateError) -> None:
        """Repeat the request at its model, which failed with `error`, or go on to the next
        fallback. Raise the error of the first model if there is no other one."""
        if self.guard is not None and self.guard.has_refused:
            raise error
        failed, backends = self._route.model, len(self._route.targets)
        if self.is_litellms:
            failed = self.model
        elif await self._fallbacks.retries(failed, error, backends):
            self.response = Collected()
            return
        if self._events is not None and self._events.stays:
            raise error
        if self._fallbacks.current is None:
            self._first = self._route
        elif self._events is not None:
            await self._events.fallback_ended(self._fallbacks, failed, succeeded=False)
        self._fallbacks.note_failure(failed, error)
        if (fallback := await self._fallbacks.next(self._may_use)) is not None:
            message = "Model %r failed (%s), so the request goes on to %r."
            logger.warning(message, failed, error.code, fallback.model)
            if self._events is not None:
                await self._events.attempt_failed(failed, error)
            self._go_on(fallback)
            if self.is_litellms and self._caller is not None:
                await budgets.release(self._caller)
            return
        self._route, self.is_litellms = self._first, False
        self._context.go_on(None, 0)
        assert self._fallbacks.first_error is not None  # it was noted
        raise self._fallbacks.first_error

    def adapted(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the body for the model at which the request is."""
        fallback = self._fallbacks.current
        return body if fallback is None else {**body, **fallback.parameters, "model": self.model}

    def for_litellm(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the body for the other provider's model at which the request is. The guardrails of
        the first model hold for it, too: LiteLLM's handler runs them."""
        body, guardrails = self.adapted(body), self._first.guardrails
        given = body.get(GUARDRAILS)
        if not guardrails or not isinstance(given, list | None):
            return body
        return {**body, GUARDRAILS: [*(given or ()), *guardrails]}

    async def admitted_again(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the body for the model of ours at which the request is. If it is a fallback with
        guardrails or texts that the hooks have not seen, they run again. Raise ToolgateError."""
        fallback, guard = self._fallbacks.current, self.guard
        if fallback is None or self._events is None:
            return self.adapted(body)
        if self._of_fallback is None:
            sent, guardrails = self.adapted(body), self._route.guardrails
            if not self._events.saw(fallback.parameters, guardrails):
                with own_errors() if guard is None else guard.noting_refusals():
                    sent = await self._events.before_fallback(sent, guardrails)
                if guard is not None:
                    guard.start()
            self._of_fallback = sent
        return self._of_fallback

    async def answers(self, *, stream: bool) -> None:
        """Note which deployment answers, in log events and headers."""
        row = self._choice.answering(self._route, self._context.deployment)
        if self._events is None:
            if (deployment_id := model_id_of(row)) is not None:
                self._context.notes.host_headers = {"x-litellm-model-id": deployment_id}
            return
        self._events.chosen(row)
        if stream:
            await self._events.describe(self._route.model)

    async def shown(self, whole: Whole, request: ChatRequest) -> Mapping[str, Any]:
        """Return the body of a whole response, and store it. Raise ToolgateError."""
        if self.guard is not None:
            body = await self.guard.body(whole, self._route.model, request)
        else:
            await whole.keep()
            body = whole.body()
        if self._events is not None:
            await self._events.completed(self._route.model, body)
        return body

    def guarded(
        self, guard: ResponseGuard, stream: Stream, events: Events, request: ChatRequest
    ) -> AsyncGenerator[bytes, None]:
        """Yield a stream as the hooks leave it. Raise ToolgateError."""
        frames = self.response.frames(stream, events, self._context)
        return guard.stream(frames, self.response.whole, self._route.model, request)

    def note_events(self, pieces: Iterable[ResponseEvent]) -> None:
        """Keep events of a streamed response for the log event."""
        if self._events is not None:
            self.response.note(pieces)

    async def with_cost(self, events: bytes) -> bytes:
        """Return events of a stream, with their cost if LiteLLM's settings ask for it."""
        observer = self._events
        return events if observer is None else await observer.with_cost(self._route.model, events)

    def note_first_event(self) -> None:
        """Note the time of a stream's first event."""
        if self._events is not None:
            self._events.first_event()

    async def replaced(self, error: ToolgateError) -> ToolgateError:
        """Return the error that a hook returns instead, or `error`."""
        events = self._events
        return error if events is None else await events.replaced(self._route.model, error)

    def report(self, failed: ToolgateError | None, *, begun: bool) -> None:
        """Send LiteLLM's log event in the background. A stream that the client closed after it had
        `begun` counts as a success, as in LiteLLM."""
        if self.guard is not None:
            self.guard.end()
        if self._events is None:
            return
        if self._fallbacks.current is not None and failed is None:
            ended = self._events.fallback_ended(self._fallbacks, self.model, succeeded=True)
            in_background(ended)
        if self.is_litellms:
            return  # its handler has sent the event
        left = isinstance(failed, ClientDisconnected) and begun
        if self.response.has_begun and (failed is None or left):
            if self._caller is not None:
                budgets.leave_to_event(self._caller)
            stream = is_streamed(self.body)
            body = (self.guard and self.guard.shown) or self.response.whole().body()
            in_background(self._events.succeeded(self._route.model, body, stream=stream))
        elif failed is not None:
            event = self._events.failed(self._route.model, failed)
            in_background(budgets.released_before(event, self._caller))

    @property
    def caller(self) -> UserAPIKeyAuth:
        """The sender, as LiteLLM describes it."""
        return self._caller or auth.caller(self._context.caller.key, self._request.scope["path"])

    def _observed(self) -> RequestEvents:
        caller = self.caller
        if caller.end_user_id is None:  # as LiteLLM finds it after a custom_auth
            headers = dict(self._request.headers)
            caller.end_user_id = get_end_user_id_from_request_body(self.body, headers)
        data = RequestData(self._request, caller, self.body, self._surface, self._context)
        if self._route.reads:
            self.guard = ResponseGuard(data)
        return RequestEvents(data, guarded=self._route.reads)

    async def _may_use(self, model: str) -> bool:
        """Return whether the request may fall back to a model. As in LiteLLM, the key needs no
        permission for one that the request does not name, unless the configuration requires it."""
        key = self._context.caller.key
        if key is not None and key.terms.enforced_only and is_foreign(model, self.asker):
            return False
        return await auth.may_fall_back(self.caller, model)

    def _go_on(self, fallback: Fallback) -> None:
        route = own_route(fallback.model, self.asker)
        self.model, self.is_litellms = fallback.model, route is None
        self.response, self._of_fallback = Collected(), None
        self._context.go_on(self.model, self._fallbacks.attempted)
        if is_foreign(self.model, self.asker):
            self._context.notes.note_fallback()
        if route is not None:
            self._route = route
            if route.events and self._events is None:
                self._events = self._observed()
        if self._events is not None:
            self._events.next_model(self._fallbacks)

    def _reroute(self, model: object) -> None:
        """Take the model to which LiteLLM or a hook changed the request. Raise
        GatewayMisconfigured."""
        route = own_route(model, self.asker) if isinstance(model, str) else None
        if route is None:
            raise GatewayMisconfigured(
                f"LiteLLM or an `async_pre_call_hook` changed the model to {model!r}, which the "
                "gateway's own route can't serve. Set TOOLGATE_ROUTE=litellm."
            )
        self._route, self.model = route, str(model)
        self.body = {**self.body, "model": self.model}
