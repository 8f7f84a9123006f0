"""LiteLLM's ASGI app, and the place of our own route among its middleware."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.middleware import Middleware
from starlette.types import ASGIApp

PATH_ONLY = frozenset({"LazyFeatureMiddleware", "PrometheusAuthMiddleware"})
"""Middleware of LiteLLM that acts on paths which are never ours. It matches every request against
some forty prefixes, about 5 % of the gateway's processor time for a whole response."""


def litellm_app() -> Any:
    """The app. Importing it reads LiteLLM's settings from the environment."""
    from litellm.proxy.proxy_server import app

    return app


def insert_own_route(app: Any, route: Callable[[ASGIApp], ASGIApp]) -> None:
    """Makes `route` the innermost middleware, except for PATH_ONLY, which goes inside it.

    Cross-origin headers, security headers, compression and LiteLLM's count of in-flight requests
    therefore apply to our route.
    """
    inside = [each for each in app.user_middleware if each.cls.__name__ in PATH_ONLY]
    outside = [each for each in app.user_middleware if each.cls.__name__ not in PATH_ONLY]
    app.user_middleware[:] = [*outside, Middleware(route), *inside]
