"""Probes of backends, against the scripted backend, and the cause that is given of one that is
down."""

from __future__ import annotations

import socket

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.support.servers import fake_backend
from tests.support.servers.fake_backend import KEY, FakeBackend
from toolgate_proxy.routing import health
from toolgate_proxy.routing.deployments import Deployments, Placement
from toolgate_proxy.routing.health import Health
from toolgate_proxy.settings import Settings
from toolgate_proxy.stack.processes import free_port


@pytest.mark.parametrize(("reported", "total"), [(7, 7), (None, 0)])
async def test_probe_notes_the_requests_that_a_backend_reports(
    backend: FakeBackend, monkeypatch: pytest.MonkeyPatch, reported: int | None, total: int
) -> None:
    monkeypatch.setattr(
        backend, "info", fake_backend.INFO.model_copy(update={"in_flight": reported})
    )
    deployments = Deployments(Settings(redis_url=None))
    placement = Placement("tiny", backend.url, fake_backend.KEY)
    await Health(deployments, lambda: [placement]).probe_all()
    deployment = deployments.at(placement)
    assert deployment.state.has_responded
    assert deployment.load.total == total


async def cause_at(url: str, key: str = KEY) -> str | None:
    """After one probe."""
    deployments = Deployments(Settings(redis_url=None))
    placement = Placement("tiny", url, key)
    await Health(deployments, lambda: [placement]).probe_all()
    deployment = deployments.at(placement)
    await deployment.backend.aclose()
    return deployment.state.error


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_refused_connection(host: str) -> None:
    cause = await cause_at(f"http://{host}:{free_port()}")
    assert cause == "connection failed: Connection refused"


async def test_an_unknown_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert await cause_at("http://nowhere.example:1") == (
        "connection failed: Name or service not known"
    )


async def test_a_wrong_key(backend: FakeBackend) -> None:
    cause = await cause_at(backend.url, "another-key")
    assert cause == "The backend refused the gateway's API key. Set TOOLGATE_BACKEND_KEY."


async def test_another_server() -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(status=404)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    async with TestServer(app) as server:
        cause = await cause_at(str(server.make_url("")))
    assert cause == (
        "The server behind this model is not a Toolgate backend. Start it with `toolgate backend`."
    )


async def test_a_server_that_does_not_respond(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "PROBE_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert await cause_at(url) == "it does not respond in time"
