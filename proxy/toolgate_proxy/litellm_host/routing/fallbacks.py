"""The model at which a request is, its deployment, and the models to which the request goes on if
its model fails: fallbacks of LiteLLM's configuration, or the request's own. Which they are, their
order and their number are decided as in LiteLLM's router
(`async_function_with_fallbacks_common_utils`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import litellm

from toolgate_core.errors import (
    ContextLengthExceeded,
    GatewayMisconfigured,
    InternalFault,
    InvalidKey,
    KeysUnavailable,
    LimitsUnavailable,
    RateLimited,
    ResponsesUnavailable,
    ToolgateError,
)

from ...routing.deployments import Deployment, Placement
from ..errors import host_error, own_errors
from .fallback_entries import CONTEXT, NAME, Fallback, FallbackEntry, configured, fallbacks_of
from .long_term import CONTEXT_ONLY
from .model_route import ModelRoute, own_route, target_of
from .observer import Observer
from .router import Row, Sender, Target, router
from .selection import selection

GUARDRAILS = "guardrails"
RETRY_POLICY = "model_group_retry_policy"
OF_THE_KEY = (InvalidKey, RateLimited)
"""Errors that end the request, whichever model it is at."""
OF_THE_GATEWAY = (InternalFault, KeysUnavailable, LimitsUnavailable, ResponsesUnavailable)
FIRST_DELAY, MAX_DELAY = 0.5, 8.0
"""Seconds before a retry at the only backend of a model. The delay doubles, as in LiteLLM."""


class Fallbacks:
    """`route`: of the request's own model. `model`: its name as the client sent it."""

    def __init__(self, route: ModelRoute, sender: Sender, model: str) -> None:
        self.sender = sender
        self.model = model
        """As the client sent it, as a hook changed it, or that of a fallback."""
        self.route = route
        """Of the model; if LiteLLM's handler serves it, of the last one of ours."""
        self.is_litellms = False
        """LiteLLM's handler serves the fallback at which the request is."""
        self.requested: Sequence[FallbackEntry] | None = None
        """The request's own fallbacks, if it has some."""
        self.of_key: Mapping[str, Any] = {}
        """Settings of its key, which replace those of the router."""
        self.current: Fallback | None = None
        """The one at which the request is; None: it is at its own model."""
        self.attempted = 0
        """Number of fallbacks that were tried."""
        self.first = route
        """The route of the first model that failed."""
        self.first_error: ToolgateError | None = None
        """Its error, which the client gets if all models fail."""
        self._pending: list[Fallback] = []
        self._seen: list[Fallback] = []
        self._retried = 0
        """Number of retries at the model."""
        self._held = ExitStack()
        """The slots of deployments that the request has."""
        self.target: Target | None = None
        """The deployment; None before one is chosen."""

    def reroute(self, model: object) -> None:
        """Take the model to which LiteLLM or a hook changed the request. Raise
        GatewayMisconfigured."""
        route = own_route(model, self.sender) if isinstance(model, str) else None
        if route is None:
            raise GatewayMisconfigured(
                f"LiteLLM or an `async_pre_call_hook` changed the model to {model!r}, which the "
                "gateway's own route cannot serve. Set TOOLGATE_ROUTE=litellm."
            )
        self.route, self.model = route, str(model)

    @property
    def name(self) -> str:
        """The model's name in the router."""
        return self.model if self.is_litellms else self.route.model

    def adapt(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the body for the model."""
        fallback = self.current
        return body if fallback is None else {**body, **fallback.parameters, "model": self.model}

    def for_litellm(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the body for a model that LiteLLM's handler serves. The guardrails of the first
        model hold for it, too: that handler runs them."""
        body, guardrails = self.adapt(body), self.first.guardrails
        given = body.get(GUARDRAILS)
        if not guardrails or not isinstance(given, list | None):
            return body
        return {**body, GUARDRAILS: [*(given or ()), *guardrails]}

    @asynccontextmanager
    async def deployment(
        self, body: Mapping[str, Any], owner: str, observer: Observer
    ) -> AsyncIterator[Target]:
        """Choose a deployment, and hold a slot of it until the response has ended. `body`: with
        the tools as the prompt has them. `owner`: the key or team that sent the request. Raise
        ToolgateError."""
        route, slots = self.route, selection().slots
        with ExitStack() as self._held:
            with own_errors():
                if route.strategy is not None:
                    choose = selection().choose
                    target = choose(route.model, route.targets, route.strategy, body, owner)
                    self._held.enter_context(slots.hold(target.row))
                else:
                    prompt = body.get("messages") or body.get("input")
                    chosen = target_of(await observer.choose(prompt, slots.hold, self._held))
                    assert chosen is not None  # all deployments of the model are ours
                    target = _at_replica(route.model, chosen, body, owner)
            self.target = target
            observer.note_deployment(target.row)
            yield target

    def answering(self, deployment: object) -> Row:
        """Return the row of the model that is at a Deployment: the chosen one, or an
        alternative."""
        assert self.target is not None  # a request is sent to a chosen one
        rows = [target.row for target in (self.target, *self.route.targets)]
        return selection().row_at(rows, deployment) or self.target.row

    def alternatives(self, tried: Deployment) -> list[Placement]:
        """Return the other placements of the model."""
        rows = [target.row for target in self.route.targets]
        return selection().alternatives(rows, tried, self._held)

    async def retries(self, error: ToolgateError) -> bool:
        """Return whether the model that failed is tried again. If it has one backend, this waits.

        LiteLLM's retry policies decide. Without one, the request has moved to the other backends
        of its model, and LiteLLM's handler has retries of its own."""
        if self.is_litellms or self._retried >= self._allowed_retries(error):
            return False
        if len(self.route.targets) == 1:
            await asyncio.sleep(min(FIRST_DELAY * 2**self._retried, MAX_DELAY))
        self._retried += 1
        return True

    async def go_on(
        self, error: ToolgateError, may_use: Callable[[str], Awaitable[bool]]
    ) -> ToolgateError | None:
        """Go on to the next model that was not tried and that the request may use. If there is
        none, return the error of the first one. Raise an error of the key."""
        if isinstance(error, OF_THE_KEY):
            raise error
        if self.first_error is None:
            self.first, self.first_error = self.route, error
        failed, self._retried = self.name, 0
        self._seen.append(Fallback(failed))
        if is_of_the_model(error) and self.attempted < router().max_fallbacks:
            self._pending[:0] = self._targets(failed, error)
        while self._pending:
            fallback = self._pending.pop(0)
            if fallback in self._seen:
                continue
            self._seen.append(fallback)
            if await may_use(fallback.model):
                self.attempted += 1
                self.current, self.model = fallback, fallback.model
                route = own_route(fallback.model, self.sender)
                self.route, self.is_litellms = route or self.route, route is None
                return None
        self.current, self.route, self.is_litellms = None, self.first, False
        return self.first_error

    def _allowed_retries(self, error: ToolgateError) -> int:
        held, model = router(), self.route.model
        by_model = self.of_key.get(RETRY_POLICY) or held.model_group_retry_policy
        if (held.retry_policy is None and not by_model) or not is_of_the_model(error):
            return 0
        allowed = litellm.get_num_retries_from_retry_policy(
            exception=host_error(error, model),
            model_group=model,
            model_group_retry_policy=by_model,
            retry_policy=held.retry_policy,
        )
        return allowed or 0

    def _targets(self, model: str, error: ToolgateError) -> list[Fallback]:
        requested, for_context = self.requested, configured(CONTEXT, self.of_key)
        if (
            isinstance(error, ContextLengthExceeded)
            and for_context is not None
            and not (requested and isinstance(requested[0], Fallback))
        ):
            found = fallbacks_of(for_context, model, self.first.model)
            if found or CONTEXT_ONLY:
                return found
        fallbacks = configured(NAME, self.of_key) if requested is None else requested
        return fallbacks_of(fallbacks or (), model, self.first.model)


def without_model() -> Fallbacks:
    """Return those of a request that was refused before its model was known."""
    route = ModelRoute("", (), None, None, hooks=False, events=True, reads=False, guardrails=())
    return Fallbacks(route, Sender(), "")


def is_of_the_model(error: ToolgateError) -> bool:
    """Return whether another model may succeed. LiteLLM falls back after every error; a request
    that is invalid for one model is not sent to others."""
    if isinstance(error, OF_THE_GATEWAY):
        return False
    return isinstance(error, ContextLengthExceeded) or error.status == 429 or error.status >= 500


def _at_replica(model: str, target: Target, body: Mapping[str, Any], owner: str) -> Target:
    """Return the target at one of its replicas, if its address is a name."""
    placement = selection().replica(model, target.placement, body, owner)
    if placement == target.placement:
        return target
    params = {**target.row["litellm_params"], "api_base": placement.api_base}
    return replace(target, row={**target.row, "litellm_params": params}, placement=placement)
