"""The choice of a deployment for one request, and the slots that the request holds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from typing import Any, Protocol

from ...routing.deployments import Deployment, Placement
from ..errors import own_errors
from .model_route import ModelRoute
from .router import Row, Taken, Target
from .selection import selection


class Events(Protocol):
    """The hooks and log events of the request."""

    async def choose(
        self, model: str, messages: object, taken: Taken, held: ExitStack
    ) -> Target: ...

    def chosen(self, row: Row) -> None: ...


class Choice:
    def __init__(self) -> None:
        self._held = ExitStack()
        self._chosen: Row | None = None

    @asynccontextmanager
    async def target(
        self, route: ModelRoute, body: Mapping[str, Any], owner: str, events: Events | None
    ) -> AsyncIterator[Target]:
        """Yield the deployment, and hold a slot of it until the response has ended. `owner`: the
        key or team that sent the request. Raise ToolgateError."""
        slots = selection().slots
        with ExitStack() as self._held:
            with own_errors():
                if route.strategy is not None:
                    choose = selection().choose
                    target = choose(route.model, route.targets, route.strategy, body, owner)
                    self._held.enter_context(slots.taken(target.row))
                else:
                    assert events is not None  # a model whose strategy is None has events
                    prompt = body.get("messages") or body.get("input")
                    target = await events.choose(route.model, prompt, slots.taken, self._held)
            self._chosen = target.row
            if events is not None:
                events.chosen(target.row)
            yield target

    def answering(self, route: ModelRoute, deployment: object) -> Row:
        """Return the row of the model that is at a Deployment: the chosen one, or an
        alternative."""
        assert self._chosen is not None  # a request is sent to a chosen one
        rows = [self._chosen, *(target.row for target in route.targets)]
        return selection().row_at(rows, deployment) or self._chosen

    def alternatives(self, route: ModelRoute, tried: Deployment) -> list[Placement]:
        """Return the other placements of the model."""
        rows = [target.row for target in route.targets]
        return selection().alternatives(rows, tried, self._held)
