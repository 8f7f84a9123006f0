"""Access to the routes of a backend. vLLM's `--api-key` protects only paths that begin with /v1,
/v2, /inference or /cohere. Its other routes generate text and rescale the engine, too."""

from __future__ import annotations

import hmac
import os

from fastapi import FastAPI
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from vllm.logger import init_logger

from ..settings import settings

logger = init_logger(__name__)

OPEN = ("/health", "/ping")
"""Paths of orchestrators' probes, which often cannot send a key. They only report whether the
engine runs."""
METRICS = ("/metrics", "/metrics/")
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def protect(app: FastAPI) -> None:
    """Require vLLM's API key on every route, also on those of vLLM and of other plug-ins."""
    args = app.state.args
    # vLLM's own order (vllm/entrypoints/serve/middleware/register.py).
    keys = [key for key in (args.api_key or [os.environ.get("VLLM_API_KEY")]) if key]
    if keys:
        app.add_middleware(KeyMiddleware, keys=keys)
    elif not args.uds and args.host not in LOOPBACK:
        logger.warning(
            "Toolgate: this server has no API key, so everyone who reaches %s:%s can use all of "
            "its routes. Set VLLM_API_KEY, or --host 127.0.0.1.",
            args.host or "*",
            args.port,
        )


class KeyMiddleware:
    """Answers requests without one of `keys` with 401. The token of scrapers opens the metrics."""

    def __init__(self, app: ASGIApp, keys: list[str]) -> None:
        self._app = app
        self._keys = [key.encode() for key in keys]
        token = settings().metrics_token
        self._scrapers = [token.get_secret_value().encode()] if token is not None else []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
        if scope["type"] == "lifespan" or path in OPEN or self._admits(scope, path):
            await self._app(scope, receive, send)
        else:
            await JSONResponse({"error": "Unauthorized"}, 401)(scope, receive, send)

    def _admits(self, scope: Scope, path: str) -> bool:
        accepted = self._keys + self._scrapers if path in METRICS else self._keys
        scheme, _, sent = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
        equal = [hmac.compare_digest(sent, each) for each in accepted]
        return scheme.lower() == b"bearer" and any(equal)
