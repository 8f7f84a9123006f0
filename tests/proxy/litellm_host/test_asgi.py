from __future__ import annotations

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from toolgate_proxy.litellm_host.asgi import insert_own_route


class LazyFeatureMiddleware:
    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


class Gateway(LazyFeatureMiddleware): ...


def test_own_route_runs_inside_cors_and_outside_path_matching() -> None:
    app = Starlette(middleware=[Middleware(LazyFeatureMiddleware), Middleware(CORSMiddleware)])
    insert_own_route(app, Gateway)
    order = [each.cls for each in app.user_middleware]
    assert order == [CORSMiddleware, Gateway, LazyFeatureMiddleware]


def test_litellms_path_matching_middleware_has_the_expected_name() -> None:
    from litellm.proxy.proxy_server import app

    names = {getattr(each.cls, "__name__", "") for each in app.user_middleware}
    assert {"LazyFeatureMiddleware", "PrometheusAuthMiddleware"} <= names
