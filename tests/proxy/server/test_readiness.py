"""The probe that load balancers use."""

from __future__ import annotations

import pytest

from tests.support.litellm.own_route import Gateway, ours
from tests.support.litellm.router import foreign, use
from toolgate_proxy.litellm_host.deployments.router import placement_of


@pytest.mark.parametrize("path", ["/toolgate/ready", "/health/readiness"])
async def test_a_gateway_is_ready_once_each_model_has_had_a_backend(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    row = ours(gateway.backend)
    use(monkeypatch, row, foreign("hosted"))
    waiting = await gateway.ask(b"", path=path, method="GET", key=None)
    assert (waiting.status, waiting.json["status"]) == (503, "not ready")
    assert waiting.json["reason"].startswith("1 of 2 models has no backend")
    assert int(waiting.headers[b"retry-after"]) > 0
    assert not gateway.host.passed
    placement = placement_of(row)
    assert placement is not None
    state = gateway.here.deployments.at(placement).state
    state.note_success(0.001)
    await answers(gateway, path)
    # A backend that fails later leaves the other models to the gateway.
    state.note_failure("gone", at_once=True)
    await answers(gateway, path)


async def answers(gateway: Gateway, path: str) -> None:
    ready = await gateway.ask(b"", path=path, method="GET", key=None)
    if path == "/toolgate/ready":
        assert (ready.status, ready.json) == (200, {"status": "ready"})
    else:
        assert (ready.status, len(gateway.host.passed)) == (299, 1)
        gateway.host.passed.clear()
