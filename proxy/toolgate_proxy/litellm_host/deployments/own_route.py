"""Our own route for a request, which is found before LiteLLM checks its key; the choice of a
deployment on it, and the slots that the request holds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any, Protocol

from starlette.types import Scope

from ...context import context_of
from ...keys.header import key_of
from ...routing.deployments import Deployment, Placement
from .. import auth
from ..errors import own_errors
from .key_settings import ALIASES, key_settings
from .model_route import ModelRoute, model_routes
from .router import Asker, Row, Taken, Target
from .selection import selection


def own_route(model: str, asker: Asker) -> ModelRoute | None:
    """Return how our own route serves a model, or None if requests take LiteLLM's route."""
    route = model_routes().find(model, asker)
    return None if route is None or route.reason is not None else route


def litellms_reason(model: str, asker: Asker | None = None) -> str | None:
    """Return why requests for a model with a Toolgate deployment take LiteLLM's route; None: they
    take our own. `asker`: None for the deployments of all teams."""
    route = model_routes().find(model, asker)
    return "it also has deployments of another provider" if route is None else route.reason


async def asked(scope: Scope, model: str) -> tuple[str, Asker]:
    """Return the model that a request is for, and its sender. In LiteLLM's database, keys and teams
    have aliases of models."""
    from litellm.proxy import proxy_server
    from litellm.proxy.auth.auth_checks import get_key_object
    from litellm.proxy.utils import hash_token

    if (caller := context_of(scope).caller).authenticated:
        return model, Asker(is_administrator=caller.key is None)
    sent = key_of(scope["headers"]) or ""
    if auth.is_master_key(sent):
        return model, Asker(is_administrator=True)
    if not auth.has_database() or proxy_server.user_custom_auth is not None:
        return model, Asker()
    try:
        key = await get_key_object(
            hashed_token=hash_token(sent),
            prisma_client=proxy_server.prisma_client,
            user_api_key_cache=proxy_server.user_api_key_cache,
        )
    except Exception:  # noqa: BLE001  not a key of the database: `litellm_caller` judges it
        return model, Asker()
    of_router = (await key_settings(key)).get(ALIASES)
    for aliases in (key.team_model_aliases, key.aliases, of_router):
        target = (aliases or {}).get(model, model)
        model = target["model"] if isinstance(target, dict) else target
    return model, auth.asker(key)


class Events(Protocol):
    """The hooks and log events of the request."""

    async def choose(
        self, model: str, messages: object, taken: Taken, held: ExitStack
    ) -> Target: ...

    def chosen(self, row: Row) -> None: ...


def _at_replica(model: str, target: Target, body: Mapping[str, Any], owner: str) -> Target:
    """Return the target at one of its replicas, if its address is a name."""
    placement = selection().replica(model, target.placement, body, owner=owner)
    if placement == target.placement:
        return target
    params = {**target.row["litellm_params"], "api_base": placement.api_base}
    return replace(target, row={**target.row, "litellm_params": params}, placement=placement)


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
                    target = _at_replica(route.model, target, body, owner)
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
