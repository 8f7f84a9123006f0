"""Runs checks against the reference server, in process or over HTTP."""

import asyncio
from contextlib import contextmanager
from functools import cache

import httpx

from tests.support.servers.loopback import in_thread
from tests.verify.reference_server.app import KEY, MODEL, ReferenceServer
from toolgate_verify.checks import all_checks
from toolgate_verify.engine.client import SCENARIO, Client
from toolgate_verify.engine.run import run
from toolgate_verify.engine.target import Target


class InProcess(httpx.AsyncBaseTransport):
    def __init__(self, app):
        self.app = app

    async def handle_async_request(self, request):
        content = await request.aread()
        scope = {
            "type": "http",
            "method": request.method,
            "path": request.url.path,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "extensions": {SCENARIO: request.extensions.get(SCENARIO)},
        }
        sent = []

        async def receive():
            return {"type": "http.request", "body": content}

        async def send(message):
            sent.append(message)

        await self.app(scope, receive, send)
        return httpx.Response(
            sent[0]["status"], headers=sent[0]["headers"], content=sent[1]["body"]
        )


async def verify(checks, fault=None, scenario=""):
    """The results against the server, with a fault in one scenario."""
    return await _run(ReferenceServer(fault, scenario), checks)


async def _run(server, checks):
    target = Target("http://reference/v1", MODEL, KEY)
    async with httpx.AsyncClient(transport=InProcess(server)) as http:
        return await run(Client(target, http), checks)


@cache
def run_without_a_fault():
    """The run of all checks, and how many requests the server got."""
    server = ReferenceServer()
    return asyncio.run(_run(server, all_checks())), server.requests


@contextmanager
def served(server, *, keys=True):
    """Serves the reference server at a free port, and yields its URL. Without `keys` it takes
    requests with any key, and without one. A fault of the server applies to all requests."""
    right = [(b"authorization", f"Bearer {KEY}".encode())]

    async def app(scope, receive, send):
        if scope["type"] == "http":
            headers = scope["headers"] if keys else right
            extensions = {SCENARIO: server.scenario}  # HTTP does not tell it
            await server({**scope, "headers": headers, "extensions": extensions}, receive, send)

    with in_thread(app) as url:
        yield url
