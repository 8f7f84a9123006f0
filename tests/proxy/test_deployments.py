"""The load of a deployment, whether it is down, and probes of backends with their causes."""

import socket

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.support.servers.fake_backend import INFO, KEY
from toolgate_proxy.ops.stack.processes import free_port
from toolgate_proxy.routing import deployments as module
from toolgate_proxy.routing import health
from toolgate_proxy.routing.deployments import BackendState, Deployments, Load, Placement
from toolgate_proxy.routing.health import Health
from toolgate_proxy.settings import Settings


def test_expected_requests_are_counted_once_until_they_arrive_or_expire(monkeypatch):
    load = Load()
    load.expect()
    load.expect()
    assert load.requests == 2
    with load.running():
        assert load.requests == 2
        with load.running(), load.running():
            assert load.requests == 3
    assert load.requests == 0
    load.expect()
    monkeypatch.setattr(module, "EXPECTED_SECONDS", -1.0)
    assert load.requests == 0


def test_failed_requests_are_no_longer_counted():
    load = Load()
    with pytest.raises(RuntimeError), load.running():
        raise RuntimeError
    assert load.requests == 0


def test_requests_of_other_gateways_are_those_that_the_backend_reports_beyond_our_own():
    load = Load()
    with load.running():
        load.note_reported(5)
        load.expect()
        assert (load.requests, load.total) == (2, 6)
    assert (load.requests, load.total) == (1, 5)
    load.note_reported(None)
    assert load.total == load.requests == 1


async def test_a_backend_under_several_names_is_one_with_grammars_of_each():
    found = Deployments(Settings())
    one, other, again = (found.at(Placement("m", "http://b", KEY, name)) for name in "aba")
    assert one is again
    assert one == other
    assert (one.backend, one.state, one.load) == (other.backend, other.state, other.load)
    assert one.grammars is not other.grammars
    assert one != found.at(Placement("m", "http://b", "another", "a"))
    await found.aclose()


def test_a_backend_is_down_until_it_responds_or_its_failure_is_old():
    """Without health checks a failure is not renewed, and a request must find out."""
    state = BackendState("http://b", memory=60.0)
    assert not state.is_down
    state.note_failure("slow", at_once=False)
    assert not state.is_down
    state.note_failure("slow", at_once=False)
    assert state.is_down
    state.note_success(0.1)
    assert not state.is_down
    state.note_failure("gone", at_once=True)
    assert state.is_down
    state.memory = 0.0
    assert not state.is_down


async def probed(url, key=KEY):
    """A deployment after one probe."""
    deployments = Deployments(Settings(redis_url=None))
    placement = Placement("tiny", url, key)
    await Health(deployments, lambda: [placement]).probe_all()
    found = deployments.at(placement)
    await found.backend.aclose()
    return found


@pytest.mark.parametrize(("reported", "total"), [(7, 7), (None, 0)])
async def test_a_probe_notes_the_requests_that_a_backend_reports(
    backend, monkeypatch, reported, total
):
    monkeypatch.setattr(backend, "info", INFO.model_copy(update={"in_flight": reported}))
    found = await probed(backend.url)
    assert (found.state.has_responded, found.load.total) == (True, total)


async def test_the_first_probe_names_the_model_for_routers_that_choose_a_backend_by_it():
    received = []

    async def answer(request):
        received.append((await request.json())["model"])
        return web.json_response(INFO.model_dump(mode="json"))

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    async with TestServer(app) as server:
        await probed(str(server.make_url("")))
    assert received == ["tiny"]


async def cause_at(url, key=KEY):
    return (await probed(url, key)).state.error


async def test_a_probe_that_fails_has_its_cause(backend, monkeypatch):
    refused = "connection failed: Connection refused"
    for host in ("127.0.0.1", "localhost"):
        assert await cause_at(f"http://{host}:{free_port()}") == refused
    assert await cause_at(backend.url, "another-key") == (
        "The backend refused the gateway's API key. Set TOOLGATE_BACKEND_KEY."
    )
    async with TestServer(web.Application()) as server:  # which answers 404
        assert await cause_at(str(server.make_url(""))) == (
            "The server behind this model is not a Toolgate backend. "
            "Start it with `toolgate backend`."
        )

    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with socket.create_server(("127.0.0.1", 0)) as silent, monkeypatch.context() as patch:
        patch.setattr(health, "PROBE_SECONDS", 0.1)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert await cause_at(url) == "it does not respond in time"
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert await cause_at("http://nowhere.example:1") == (
        "connection failed: Name or service not known"
    )
