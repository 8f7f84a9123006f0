"""LiteLLM's side of a request on our own route: another authentication, hooks, the choice of a
deployment, and the log event.

Without callbacks and with our own authentication, only the deployment is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any

from starlette.requests import Request

from toolgate_core.errors import ClientDisconnected, GatewayMisconfigured, ToolgateError

from ...api.surface import Surface, Whole, is_streamed
from ...background import in_background
from ...chat.response import ResponseEvent
from ...context import RequestContext
from ...routing.deployments import Deployment, Placement
from .. import auth
from ..context import identity_of
from ..deployments.model_route import ModelRoute
from ..deployments.router import Target
from ..errors import own_errors
from ..state import model_routes, selection
from .configured import wants_events
from .request_events import RequestEvents


class HostSide:
    """`body`: as the client sent it, with the model in it."""

    def __init__(
        self,
        surface: Surface,
        scope: MutableMapping[str, Any],
        context: RequestContext,
        route: ModelRoute,
        body: Mapping[str, Any],
    ) -> None:
        self.model: str = body["model"]
        """The model's name as the client sent it, or as a hook changed it."""
        self._surface = surface
        self._scope = scope
        self._context = context
        self._route = route
        self._body = body
        self._events: RequestEvents | None = None
        """None if nobody observes the request."""
        self._whole: Callable[[], Whole] | None = None
        """Makes the whole response, once there is one, from all of its events."""
        self._pieces: list[ResponseEvent] = []
        """The events of a streamed response, for the log event."""

    async def admitted(self, content: bytes) -> Mapping[str, Any]:
        """Authenticate the caller, if another authentication does it, and check that the key may
        use the model. Return the body as the hooks left it. `content`: the bytes of the body, which
        another authentication may read.

        Raise ToolgateError."""
        own = self._context.authenticated
        request = Request(self._scope)
        if own:
            observed = self._route.events or self._route.hooks
            caller = auth.caller(self._context.key, self._scope["path"]) if observed else None
        else:
            request._body = content
            with own_errors():
                caller = await auth.litellm_caller(request, self._body)
            self._context.identity = identity_of(caller)
        if caller is not None:
            self._events = RequestEvents(request, caller, self._body, self._surface, self._context)
        if self._context.key is not None:
            await auth.check_model(self._context.key, self.model)
        if self._events is None or (own and not self._route.hooks):
            return self._body
        with own_errors():
            changed = await self._events.before()
        if changed.get("model") != self.model:
            self._reroute(changed.get("model"))
        return changed

    async def choose(self, body: Mapping[str, Any], owner: str) -> Target:
        """Return the deployment for the request. `owner`: the key or team that sent it."""
        route = self._route
        if route.strategy is not None:
            target = selection().choose(route.model, route.targets, route.strategy, body, owner)
        else:
            assert self._events is not None  # a model whose strategy is None has events
            with own_errors():
                target = await self._events.choose(
                    route.model, body.get("messages") or body.get("input")
                )
        if self._events is not None:
            self._events.chosen(target.row)
        return target

    def alternatives(self, tried: Deployment) -> list[Placement]:
        """Return the other placements of the model."""
        return selection().alternatives([target.row for target in self._route.targets], tried)

    def answered(self, whole: Callable[[], Whole]) -> None:
        """Note that a backend responds. `whole` makes the response, to which the events of
        `note_events` are added."""
        self._whole = whole

    def note_events(self, pieces: Iterable[ResponseEvent]) -> None:
        """Keep events of a streamed response for the log event."""
        if self._events is not None:
            self._pieces += pieces

    def note_first_event(self) -> None:
        """Note the time of a stream's first event."""
        if self._events is not None:
            self._events.first_event()

    async def replaced(self, error: ToolgateError) -> ToolgateError:
        """Return the error that a hook returns instead, or `error`."""
        return error if self._events is None else await self._events.replaced(error)

    def report(self, failed: ToolgateError | None, *, begun: bool) -> None:
        """Send LiteLLM's log event in the background. A stream that the client closed after it had
        `begun` counts as a success, as in LiteLLM."""
        if self._events is None:
            return
        left = isinstance(failed, ClientDisconnected) and begun
        if self._whole is not None and (failed is None or left):
            whole = self._whole()
            whole.add(self._pieces)
            stream = is_streamed(self._body)
            in_background(self._events.succeeded(self._route.model, whole.body(), stream=stream))
        elif failed is not None:
            in_background(self._events.failed(self._route.model, failed))

    def _reroute(self, model: object) -> None:
        """Take the model to which a hook changed the request. Raise GatewayMisconfigured."""
        route = own_route(model) if isinstance(model, str) else None
        if route is None:
            raise GatewayMisconfigured(
                f"An `async_pre_call_hook` changed the model to {model!r}, which the gateway's own "
                "route can't serve. Set TOOLGATE_ROUTE=litellm."
            )
        self._route, self.model = route, str(model)


def own_route(model: str) -> ModelRoute | None:
    """Return how our own route serves a model, or None if requests take LiteLLM's route."""
    route = model_routes().find(model)
    return None if route is None or route.reason is not None else route


def report_refused(
    surface: Surface,
    scope: MutableMapping[str, Any],
    context: RequestContext,
    error: ToolgateError,
) -> None:
    """Send LiteLLM's log event of a request that was refused before its model was known."""
    if wants_events():
        events = RequestEvents.of_refused(scope, surface, context)
        in_background(events.failed("", error))
