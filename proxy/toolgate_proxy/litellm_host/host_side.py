"""LiteLLM's side of a request on our own route: who sent it, which models it may use, and who
observes it. Without callbacks and with our own authentication, only the permission for the model is
checked."""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from typing import Any

from litellm.proxy._types import UserAPIKeyAuth
from litellm.proxy.auth.auth_utils import get_end_user_id_from_request_body
from starlette.requests import Request

from toolgate_core.errors import ToolgateError

from ..api.shared.parameter import LITELLM
from ..api.surface import Surface
from ..context import RequestContext
from ..state import gateway
from . import auth, database
from .callbacks.request_data import RequestData, request_of
from .callbacks.request_events import RequestEvents
from .database import check_settings, key_settings
from .routing.fallback_entries import NAME, all_of, requested_fallbacks
from .routing.fallbacks import Fallbacks
from .routing.model_route import ModelRoute
from .routing.observer import UNOBSERVED, Observer
from .routing.router import Sender, Target, is_foreign

logger = logging.getLogger("toolgate")


class HostSide:
    """LiteLLM's side of one request. `body`: as the client sent it, with the model in it. `route`,
    `sender`: of that model."""

    def __init__(
        self,
        surface: Surface,
        scope: MutableMapping[str, Any],
        context: RequestContext,
        route: ModelRoute,
        sender: Sender,
        body: Mapping[str, Any],
    ) -> None:
        self.body = body
        self.fallbacks = Fallbacks(route, sender, body["model"])
        self.observer: Observer = UNOBSERVED
        self.surface = surface
        self.scope = scope
        self.context = context
        self._caller: UserAPIKeyAuth | None = None
        """The sender, as another authentication describes it."""

    async def run_hooks(self, content: bytes) -> Mapping[str, Any]:
        """Authenticate the caller, if another authentication does it, and check that the key may
        use the model. Return the body as the hooks left it. `content`: the bytes of the body, which
        another authentication may read. Raise ToolgateError.

        With another authentication it must not be cancelled: LiteLLM may have reserved the cost of
        the request, or a slot."""
        for row in LITELLM.values():  # whose values LiteLLM reads before the body is parsed
            if row.type is not None and self.body.get(row.name) is not None:
                row.type.parse(self.body[row.name], row.name)
        fallbacks, key = self.fallbacks, self.context.caller.key
        is_counted = not self.context.caller.authenticated
        if is_counted:
            await self._authenticate(content)
        if is_counted or fallbacks.route.events or fallbacks.route.hooks:
            self._observe()
        if key is not None and fallbacks.model not in (key.terms.models or (fallbacks.model,)):
            await auth.check_model(self.caller, fallbacks.model)
        values = await self.observer.before(self.body, fallbacks.route.guardrails)
        if values.get("model") != fallbacks.model:
            self._reroute(values.get("model"))
        if values.get(NAME) is not None:
            fallbacks.requested = requested_fallbacks(values)
            for fallback in all_of(fallbacks.requested):
                await auth.check_model(self.caller, fallback.model)
        return values

    def deployment(
        self, body: Mapping[str, Any], owner: str
    ) -> AbstractAsyncContextManager[Target]:
        """Hold a deployment for the request until the response has ended. `owner`: the key or team
        that sent the request. Raise ToolgateError."""
        searching = gateway().reader.searching(self.surface, body)
        return self.fallbacks.deployment(searching, owner, self.observer)

    async def fall_back(self, error: ToolgateError) -> None:
        """Send the request again to its model, which failed with `error`, or go on to the next
        fallback. Raise the error of the first model if there is no other one."""
        fallbacks, observer, failed = self.fallbacks, self.observer, self.fallbacks.name
        if observer.has_refused:
            raise error
        if await fallbacks.retries(error):
            observer.restart()
            return
        if observer.stays:
            raise error
        if fallbacks.current is not None:
            await observer.fallback_failed(failed)
        if (first_error := await fallbacks.go_on(error, self._may_use)) is not None:
            self.context.go_on(None, 0)
            raise first_error
        message = "Model %r failed (%s), so the request goes on to %r."
        logger.warning(message, failed, error.code, fallbacks.model)
        self.context.go_on(fallbacks.model, fallbacks.attempted)
        if is_foreign(fallbacks.model, fallbacks.sender):
            self.context.notes.note_fallback()
        await observer.report_fallback(failed, error)
        if not fallbacks.is_litellms and fallbacks.route.events and observer is UNOBSERVED:
            self._observe()
        if fallbacks.is_litellms and self._caller is not None:
            await database.release_budget(self._caller)

    @property
    def caller(self) -> UserAPIKeyAuth:
        """The sender, as LiteLLM describes it."""
        return self._caller or auth.caller(self.context.caller.key, self.scope["path"])

    @cached_property
    def _request(self) -> Request:
        return request_of(self.scope)

    async def _authenticate(self, content: bytes) -> None:
        fallbacks, before = self.fallbacks, self.fallbacks.sender
        self._request._body = content
        self._caller = await auth.litellm_caller(self._request, self.body)
        model, fallbacks.sender = auth.model_of(self._request), auth.sender_of(self._caller)
        if model != fallbacks.model or fallbacks.sender.team != before.team:
            self._reroute(model)
        fallbacks.of_key = await key_settings(self._caller)
        check_settings(fallbacks.of_key)

    def _observe(self) -> None:
        caller = self.caller
        if caller.end_user_id is None:  # as LiteLLM finds it after a custom_auth
            headers = dict(self._request.headers)
            caller.end_user_id = get_end_user_id_from_request_body(self.body, headers)
        data = RequestData(self._request, caller, self.body, self.surface, self.context)
        self.observer = RequestEvents(data, self.fallbacks, reads=self.fallbacks.route.reads)

    def _reroute(self, model: object) -> None:
        self.fallbacks.reroute(model)
        self.body = {**self.body, "model": self.fallbacks.model}

    async def _may_use(self, model: str) -> bool:
        """Return whether the request may fall back to a model. As in LiteLLM, the key needs no
        permission for one that the request does not name, unless the configuration requires it."""
        key = self.context.caller.key
        if key is not None and key.terms.enforced_only and is_foreign(model, self.fallbacks.sender):
            return False
        return await auth.may_fall_back(self.caller, model)
