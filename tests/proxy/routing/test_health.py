"""Probes of backends, against the scripted backend."""

from __future__ import annotations

import pytest

from tests.support.servers import fake_backend
from tests.support.servers.fake_backend import FakeBackend
from toolgate_proxy.routing.deployments import Deployments, Placement
from toolgate_proxy.routing.health import Health
from toolgate_proxy.settings import Settings


@pytest.mark.parametrize(("reported", "total"), [(7, 7), (None, 0)])
async def test_probe_notes_the_requests_that_a_backend_reports(
    backend: FakeBackend, monkeypatch: pytest.MonkeyPatch, reported: int | None, total: int
) -> None:
    monkeypatch.setattr(
        backend, "info", fake_backend.INFO.model_copy(update={"in_flight": reported})
    )
    settings = Settings(redis_url=None)
    deployments = Deployments(settings)
    placement = Placement("tiny", backend.url, fake_backend.KEY)
    await Health(deployments, settings, lambda: [placement]).probe_all()
    deployment = deployments.at(placement)
    assert deployment.state.has_responded
    assert deployment.load.total == total
