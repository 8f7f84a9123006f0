"""LiteLLM's ASGI app, and the place of our own route among its middleware."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from litellm.proxy._types import LiteLLMRoutes
from starlette.middleware import Middleware
from starlette.routing import Match
from starlette.types import ASGIApp, Scope

PATH_ONLY = frozenset({"LazyFeatureMiddleware", "PrometheusAuthMiddleware"})
"""Middleware of LiteLLM that acts on paths which are never ours. It matches every request against
some forty prefixes, about 5 % of the gateway's processor time for a whole response."""


AUTHENTICATION = "litellm.proxy.auth."
"""Prefix of the modules with LiteLLM's authentication, which its routes have as a dependency."""


def litellm_app() -> Any:
    """Return the app. Importing it reads LiteLLM's settings from the environment."""
    from litellm.proxy.proxy_server import app

    return app


def insert_own_route(app: Any, route: Callable[[ASGIApp], ASGIApp]) -> None:
    """Make `route` the innermost middleware, except for PATH_ONLY, which goes inside it.

    Cross-origin headers, security headers, compression and LiteLLM's count of in-flight requests
    therefore apply to our route.
    """
    inside = [each for each in app.user_middleware if each.cls.__name__ in PATH_ONLY]
    outside = [each for each in app.user_middleware if each.cls.__name__ not in PATH_ONLY]
    app.user_middleware[:] = [*outside, Middleware(route), *inside]


def insert_innermost(app: Any, middleware: Callable[..., ASGIApp]) -> None:
    """Add a middleware whose `host` is the app, inside all others."""
    app.user_middleware.append(Middleware(middleware, host=app))


def serves_without_key(app: Any, scope: Scope, path: str) -> bool:
    """Return whether the app has a route for the request that does not check its key, or checks it
    by a method of its own. `path`: without the root path."""
    if path in LiteLLMRoutes.public_routes.value:
        return True
    route = next((each for each in app.routes if each.matches(scope)[0] is Match.FULL), None)
    return route is not None and not checks_key(route)


def checks_key(route: Any) -> bool:
    """Return whether a route has LiteLLM's authentication as a dependency."""
    dependant = getattr(route, "dependant", None)
    return dependant is not None and any(
        str(getattr(call, "__module__", "")).startswith(AUTHENTICATION)
        for call in _calls(dependant)
    )


def _calls(dependant: Any) -> Iterator[Any]:
    for each in dependant.dependencies:
        yield each.call
        yield from _calls(each)
