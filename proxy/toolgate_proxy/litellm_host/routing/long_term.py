"""LiteLLM 1.108, which is its long-term line, by the names of later releases: the entry points of
its router, by the members that they replace, and the packages for MCP, which moved. And a rule for
fallbacks of 1.108 and 1.109. Delete this module when the long-term line moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from litellm.router_utils import fallback_event_handlers as handlers

IS_OLDER = find_spec("litellm.router_api") is None
"""The router has no entry points."""
CONTEXT_ONLY = tuple(map(int, version("litellm").split(".")[:2])) < (1, 110)
"""A prompt that is too long for a model has only the fallbacks for context, once any model has such
ones. From 1.110 on LiteLLM takes the others if the model has none."""
MOVED = {
    "litellm.mcp_client": "litellm.experimental_mcp_client",
    "litellm.proxy.mcp_server": "litellm.proxy._experimental.mcp_server",
}
"""Packages by their names from 1.109 on, and their earlier names."""


class EarlierRouter:
    """The entry points of an older router: LiteLLM's `registry()`, `settings()` and `select()`."""

    def __init__(self, router: Any) -> None:
        self._router = router

    def registry(self) -> EarlierRouter:
        return self

    def settings(self) -> Any:
        return self._router

    def deployments(self, model_name: str | None = None, *, team_id: str | None = None) -> Any:
        return self._router.get_model_list(model_name, team_id=team_id)

    def names(self, *, kind: str) -> Any:
        return self._router.model_names

    def aliases(self) -> Any:
        return self._router.model_group_alias

    def resolve(self, name: str, *, kind: str) -> Any:
        return self._router.get_model_from_alias(model=name)

    def routing_groups(self) -> Any:
        return self._router.routing_groups

    async def select(self, model: str, request_kwargs: Any, *, messages: Any) -> Any:
        choose = self._router.async_get_available_deployment
        return await choose(model=model, request_kwargs=request_kwargs, messages=messages)


def entry_points(router: Any) -> Any:
    """Return the router, or the entry points of an older one."""
    return EarlierRouter(router) if IS_OLDER else router


def request_fallback_chain(
    fallbacks: Sequence[Mapping[str, Any]], request_kwargs: Mapping[str, Any], model_group: str
) -> tuple[Any, int | None]:
    """LiteLLM's function of this name."""
    groups = handlers.fallback_lookup_groups(request_kwargs, model_group)
    found: tuple[Any, int | None] = handlers.get_fallback_model_group_for_lookup_groups(
        fallbacks=fallbacks, lookup_groups=groups
    )
    return found


def earlier_name(target: str) -> str | None:
    """Return the earlier name of what was moved; None: it was not."""
    package = next((each for each in MOVED if target.startswith(each)), None)
    return None if package is None else MOVED[package] + target.removeprefix(package)


@cache
def module(name: str) -> Any:
    """Import a module that was moved."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return import_module(earlier_name(name) or name)
