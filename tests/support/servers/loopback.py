"""Servers of the test's process, on ports of the loopback interface."""

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from typing import Any

import uvicorn

KEEPALIVE: dict[str, Any] = {"timeout_keep_alive": 75}
"""As `toolgate backend` sets it for vLLM's server."""


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """The URL of an ASGI app, which runs in the test's event loop."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        running = asyncio.create_task(server.serve([listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running


@contextmanager
def in_thread(app: Any, port: int = 0, host: str = "127.0.0.1", **options: Any) -> Iterator[str]:
    """The URL of an ASGI app that runs in a thread; at a free port, if none is named. At the end
    it is gone at once, as if it had been killed. `options`: of uvicorn."""
    config = uvicorn.Config(app, log_level="critical", lifespan="off", **KEEPALIVE | options)
    server = uvicorn.Server(config)
    with socket.create_server((host, port)) as listening:
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://{host}:{listening.getsockname()[1]}"
        finally:
            server.servers[0].get_loop().call_soon_threadsafe(_cut, server)
            server.should_exit = server.force_exit = True
            thread.join(5)


def _cut(server: uvicorn.Server) -> None:
    """Close everything in one step, as the kernel does. uvicorn itself would close connections one
    after the other, and take requests meanwhile."""
    for listening in server.servers:
        listening.close()
    for connection in [*server.server_state.connections]:
        connection.transport.abort()


class Handler(BaseHTTPRequestHandler):
    """A handler of requests that logs nothing."""

    def answer(
        self, status: int, body: bytes = b"", content_type: str = "application/json"
    ) -> None:
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


@contextmanager
def handling(handler: type[Handler]) -> Iterator[str]:
    """The URL of a server with this handler, which runs in a thread."""
    with running(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as url:
        yield url


@contextmanager
def running(server: HTTPServer) -> Iterator[str]:
    """The URL of a server, which runs in a thread."""
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    with server:
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(10)
