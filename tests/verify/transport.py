"""An in-process transport that tells the server the scenario of a request."""

from __future__ import annotations

from typing import Any

import httpx

from toolgate_verify.engine.client import SCENARIO


class InProcess(httpx.AsyncBaseTransport):
    def __init__(self, app: Any) -> None:
        self.app = app

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        content = await request.aread()
        scope = {
            "type": "http",
            "method": request.method,
            "path": request.url.path,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "extensions": {SCENARIO: request.extensions.get(SCENARIO)},
        }
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": content}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        return httpx.Response(
            sent[0]["status"], headers=sent[0]["headers"], content=sent[1]["body"]
        )
