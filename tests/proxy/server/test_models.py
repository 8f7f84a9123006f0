"""What a gateway says of its models: their context length, under each name that clients know,
and the probes that load balancers use."""

from __future__ import annotations

import logging
import socket

import pytest

from tests.proxy.server.kit import Json
from tests.support.litellm.own_route import Gateway, Response, ours
from tests.support.litellm.router import Row, foreign, row, use
from tests.support.servers.fake_backend import KEY, FakeBackend
from toolgate_core import wire
from toolgate_proxy.limits.limiter import Limiter
from toolgate_proxy.litellm_host.deployments.router import placement_of, placements
from toolgate_proxy.routing.deployments import BackendState
from toolgate_proxy.server import probes

ANTHROPIC = [(b"anthropic-version", b"2023-06-01")]
NAMES = ("max_model_len", "context_length", "context_window", "max_input_tokens")
"""Of vLLM, OpenRouter, Groq and LiteLLM."""
NOBODY = "http://127.0.0.1:9"
MODELS, TINY = "/v1/models", "/v1/models/tiny"


@pytest.fixture(params=[(32_768, 4_096), (1_000_000, 32_000)], ids=["small", "large"])
def window(request, backend, monkeypatch):
    """The context length of the backend, and what clients reserve for the response."""
    monkeypatch.setattr(backend, "info", with_context(backend.info, request.param[0]))
    return request.param


def with_context(info: wire.Info, context: int) -> wire.Info:
    limits = info.limits.model_copy(update={"max_model_len": context})
    return info.model_copy(update={"limits": limits})


async def models(gateway: Gateway, path: str = MODELS, *, anthropic: bool = False) -> Json:
    headers = [*ANTHROPIC] if anthropic else []
    response = await gateway.ask({}, path=path, method="GET", headers=headers)
    assert response.status == 200, response.bodies
    shown: Json = response.json
    return shown


def entry(shown: Json, name: str = "tiny") -> Json:
    """The model in a list or by itself."""
    [found] = [each for each in shown.get("data", [shown]) if each["id"] == name]
    return dict(found)


async def test_models_have_the_context_length_of_their_backend(gateway, window):
    """The backend is asked for it, unless it is down."""
    context, output = window
    shown = await models(gateway, TINY)
    assert {name: shown[name] for name in NAMES} == dict.fromkeys(NAMES, context)
    assert shown["max_output_tokens"] == output
    assert await models(gateway) == {"object": "list", "data": [shown]}
    shown = await models(gateway, TINY, anthropic=True)
    assert (shown["max_input_tokens"], shown["max_tokens"]) == window
    assert (await models(gateway, anthropic=True))["data"] == [shown]


async def test_a_backend_that_is_down_is_not_asked(gateway):
    [place] = placements("tiny")
    gateway.here.deployments.at(place).state.note_failure("x", at_once=True)
    assert "max_model_len" not in entry(await models(gateway))


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_length_that_is_not_known_is_not_shown(gateway, monkeypatch, hangs):
    """Of backends that have not responded, and of other providers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        silent = f"http://127.0.0.1:{listener.getsockname()[1]}" if hangs else NOBODY
        use(monkeypatch, row("a", api_base=silent, api_key=KEY), foreign("other"))
        for path, name in ((TINY, "tiny"), (f"{MODELS}/other", "other"), (MODELS, "tiny")):
            shown = entry(await models(gateway, path), name)
            assert not {*NAMES, "max_output_tokens"} & shown.keys()
            shown = entry(await models(gateway, path, anthropic=True), name)
            assert (shown["max_input_tokens"], shown["max_tokens"]) == (None, None)


async def test_a_declared_length_is_shown_until_a_backend_has_responded(
    gateway, monkeypatch, window
):
    for url, shown in ((NOBODY, (65_536, 8_192)), (gateway.backend.url, window)):
        declared = {"max_input_tokens": 65_536}
        use(monkeypatch, row("a", api_base=url, api_key=KEY, info=declared))
        found = entry(await models(gateway, TINY))
        assert (found["max_model_len"], found["max_output_tokens"]) == shown


async def test_the_smallest_backend_of_a_model_decides(gateway, monkeypatch):
    use(monkeypatch, ours(gateway.backend), row("b", api_base=NOBODY, api_key=KEY))
    info = gateway.backend.info
    contexts = (with_context(info, 32_768), with_context(info, 8_192))
    for place, each in zip(placements("tiny"), contexts, strict=True):
        gateway.here.deployments.at(place).backend._last_info = each
    assert (await models(gateway, TINY))["max_model_len"] == 8_192


READY = "/toolgate/ready"
LITELLM = "/health/readiness"


async def probe(gateway: Gateway, path: str = READY) -> Response:
    return await gateway.ask(b"", path=path, method="GET", key=None)


def state_of(gateway: Gateway, row: Row) -> BackendState:
    placement = placement_of(row)
    assert placement is not None
    return gateway.here.deployments.at(placement).state


def other(group: str) -> Row:
    """A model with a backend that does not exist."""
    unused = FakeBackend()
    unused.url = f"http://{group}.invalid"
    return ours(unused, group)


@pytest.mark.parametrize("path", [READY, LITELLM])
async def test_a_gateway_is_ready_once_one_model_has_had_a_backend(gateway, monkeypatch, path):
    """One that fails later leaves the other models to the gateway."""
    row = ours(gateway.backend)
    use(monkeypatch, row, other("broken"), other("loading"))
    waiting = await probe(gateway, path)
    assert (waiting.status, waiting.json["status"]) == (503, "not ready")
    assert "All 3 models have no backend" in waiting.json["reason"]
    assert int(waiting.headers[b"retry-after"]) > 0
    assert not gateway.host.passed
    state = state_of(gateway, row)
    for note in (lambda: state.note_success(0.001), lambda: state.note_failure("x", at_once=True)):
        note()
        ready = await probe(gateway, path)
        if path == READY:
            assert (ready.status, ready.json) == (200, {"status": "ready"})
        else:
            assert (ready.status, gateway.host.passed.pop().path) == (299, LITELLM)


async def test_readiness_without_a_model_of_ours(gateway, monkeypatch):
    """A model of another provider is ready, and a database may get some. But the gateway waits for
    the first response of Redis."""
    for database, status in ((False, 503), (True, 200)):
        use(monkeypatch)
        monkeypatch.setattr(probes, "has_database", lambda database=database: database)
        assert (await probe(gateway)).status == status
    monkeypatch.setattr(probes, "has_database", lambda: False)
    use(monkeypatch, ours(gateway.backend), foreign("hosted"))
    for reached, status in ((False, 503), (True, 200)):
        monkeypatch.setattr(Limiter, "reached_redis", reached)
        response = await probe(gateway)
        assert (response.status, "Redis" in str(response.json)) == (status, not reached)


async def test_a_model_is_ready_while_its_backend_responds(gateway, monkeypatch):
    row = ours(gateway.backend, "org/tiny")
    use(monkeypatch, row, foreign("hosted"))
    path, state = f"{READY}/org/tiny", state_of(gateway, row)
    waiting = await probe(gateway, path)
    assert waiting.status == 503
    assert waiting.json["reason"] == "No backend of the model 'org/tiny' responds."
    state.note_success(0.001)
    assert (await probe(gateway, path)).json == {"status": "ready"}
    state.note_failure("gone", at_once=True)
    assert (await probe(gateway, path)).status == 503
    assert (await probe(gateway, f"{READY}/hosted")).status == 200
    unknown = await probe(gateway, f"{READY}/none-such")
    assert (unknown.status, unknown.json["error"]["code"]) == (404, "model_not_found")


async def test_models_without_a_backend_are_logged_once(gateway, monkeypatch, caplog):
    row = ours(gateway.backend)
    use(monkeypatch, row, other("broken"))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            await probe(gateway)
        state_of(gateway, row).note_success(0.001)
        for _ in range(3):
            await probe(gateway)
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "No backend has responded yet for these models: 'broken', 'tiny'.",
        "No backend has responded yet for these models: 'broken'.",
    ]
