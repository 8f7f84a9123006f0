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
