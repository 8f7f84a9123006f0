"""Runs checks against the reference server, in process or over HTTP."""

import asyncio
from functools import cache

import httpx

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


TARGET = Target("http://reference/v1", MODEL, KEY)


def client_of(app, **more):
    return Client(TARGET, httpx.AsyncClient(transport=InProcess(app)), **more)


def answering(status, body):
    """An app with one answer."""

    async def answer(_, __, send):
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return answer


async def verify(checks, fault=None, scenario=""):
    """The results against the server, with a fault in one scenario."""
    return await run(client_of(ReferenceServer(fault, scenario)), checks)


@cache
def run_without_a_fault():
    """The run of all checks, and how many requests the server got."""
    server = ReferenceServer()
    return asyncio.run(run(client_of(server), all_checks())), server.requests
