"""The key of a backend. vLLM's `--api-key` protects only paths that begin with /v1, /v2, /inference
or /cohere; its other routes generate text and rescale the engine, too."""

from __future__ import annotations

import os
from hmac import compare_digest

from fastapi import FastAPI
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ..settings import settings

OPEN = ("/health", "/ping")
"""Probes, which often cannot send a key. They only report whether the engine runs."""


def protect(app: FastAPI) -> None:
    """Require vLLM's API key, if there is one, on every route, also on those of other plug-ins."""
    if keys := [key for key in (app.state.args.api_key or [os.environ.get("VLLM_API_KEY")]) if key]:
        app.add_middleware(KeyMiddleware, keys=keys)


class KeyMiddleware:
    """Answers requests without one of `keys` with 401. The scrapers' token opens the metrics."""

    def __init__(self, app: ASGIApp, keys: list[str]) -> None:
        self._app = app
        self._keys = [key.encode() for key in keys]
        token = settings().metrics_token
        self._scrapers = [token.get_secret_value().encode()] if token else []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._admits(scope):
            await self._app(scope, receive, send)
        else:
            await JSONResponse({"error": "Unauthorized"}, 401)(scope, receive, send)

    def _admits(self, scope: Scope) -> bool:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if path in OPEN:
            return True
        scheme, _, sent = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
        accepted = [*self._keys, *self._scrapers] if path == "/metrics" else self._keys
        equal = [compare_digest(sent, each) for each in accepted]
        return scheme.lower() == b"bearer" and any(equal)
