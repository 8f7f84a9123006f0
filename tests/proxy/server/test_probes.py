"""The probes that load balancers use."""

from __future__ import annotations

import logging

import pytest

from tests.support.litellm.own_route import Gateway, Response, ours
from tests.support.litellm.router import Row, foreign, use
from tests.support.servers.fake_backend import FakeBackend
from toolgate_proxy.limits.limiter import Limiter
from toolgate_proxy.litellm_host.deployments.router import placement_of
from toolgate_proxy.routing.deployments import BackendState
from toolgate_proxy.server import probes

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
async def test_a_gateway_is_ready_once_one_model_has_had_a_backend(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    row = ours(gateway.backend)
    use(monkeypatch, row, other("broken"), other("loading"))
    waiting = await probe(gateway, path)
    assert (waiting.status, waiting.json["status"]) == (503, "not ready")
    assert "All 3 models have no backend" in waiting.json["reason"]
    assert int(waiting.headers[b"retry-after"]) > 0
    assert not gateway.host.passed
    state = state_of(gateway, row)
    state.note_success(0.001)
    await answers(gateway, path)
    # A backend that fails later leaves the other models to the gateway.
    state.note_failure("gone", at_once=True)
    await answers(gateway, path)


async def answers(gateway: Gateway, path: str) -> None:
    ready = await probe(gateway, path)
    if path == READY:
        assert (ready.status, ready.json) == (200, {"status": "ready"})
    else:
        assert (ready.status, len(gateway.host.passed)) == (299, 1)
        gateway.host.passed.clear()


async def test_a_gateway_with_another_providers_model_is_ready(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, ours(gateway.backend), foreign("hosted"))
    assert (await probe(gateway)).status == 200


@pytest.mark.parametrize("database", [False, True])
async def test_a_gateway_without_models_is_ready_only_if_a_database_may_get_some(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, database: bool
) -> None:
    use(monkeypatch)
    monkeypatch.setattr(probes, "has_database", lambda: database)
    assert (await probe(gateway)).status == (200 if database else 503)


async def test_a_gateway_waits_for_the_first_response_of_redis(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, foreign("hosted"))
    monkeypatch.setattr(Limiter, "reached_redis", False)
    waiting = await probe(gateway)
    assert (waiting.status, "Redis" in waiting.json["reason"]) == (503, True)
    monkeypatch.setattr(Limiter, "reached_redis", True)
    assert (await probe(gateway)).status == 200


async def test_a_model_is_ready_while_its_backend_responds(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
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


async def test_models_without_a_backend_are_logged_once(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
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
