"""A server in the test's event loop with the gateway's protocols and an application of the test."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import uvicorn

from toolgate_proxy.server.transport import http_protocol
from toolgate_proxy.server.transport.http_protocol import TimedProtocol
from toolgate_proxy.settings import settings

SECONDS = 0.4
"""Every time limit of the server, unless a test sets others."""
Serve = Callable[..., AbstractAsyncContextManager[tuple[str, int]]]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """`serve(app, header_seconds=…)`: runs the app with these settings; host and port."""

    @asynccontextmanager
    async def served(app: Any, **limits: float) -> AsyncIterator[tuple[str, int]]:
        keep_alive = limits.pop("keep_alive", SECONDS)
        monkeypatch.setattr(http_protocol, "GRACE", 0.0)
        constants = {
            "RESPONSE_SECONDS": limits.pop("response_seconds", 60.0),
            "HEADER_SECONDS": limits.pop("header_seconds", SECONDS),
            "WRITE_SECONDS": limits.pop("write_seconds", SECONDS),
        }
        for name, value in constants.items():
            monkeypatch.setattr(http_protocol, name, value)
        for name, value in ({"body_timeout": SECONDS} | limits).items():
            monkeypatch.setenv(f"TOOLGATE_{name.upper()}", str(value))
        settings.cache_clear()
        config = uvicorn.Config(
            app,
            http=TimedProtocol,
            ws="websockets-sansio",
            ws_per_message_deflate=False,
            ws_max_size=settings().max_body_bytes,
            timeout_keep_alive=keep_alive,  # type: ignore[arg-type]
            lifespan="off",
            log_level="critical",
        )
        server = uvicorn.Server(config)
        listener = socket.create_server(("127.0.0.1", 0))
        running = asyncio.create_task(server._serve([listener]))
        while not server.started:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        try:
            yield "127.0.0.1", listener.getsockname()[1]
        finally:
            server.should_exit = server.force_exit = True
            await running
            listener.close()

    return served
