"""What the gateway's own route does alike for all three APIs."""

from __future__ import annotations

import pytest

from tests.support.litellm.log_events import log_events
from tests.support.litellm.own_route import PATHS, Gateway, body_of, ours
from tests.support.litellm.router import use
from tests.support.servers.script import Script


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("api", PATHS)
async def test_the_backend_stops_when_the_client_leaves(
    gateway: Gateway, api: str, stream: bool
) -> None:
    gateway.backend.scripts["hang"] = Script(("Hello there",), hang_after=2)
    body = body_of(api, "hang", stream=stream)
    response = await gateway.ask(body, path=PATHS[api], leave_after=0.3)
    assert await gateway.backend.idle_within(2)
    assert not response.context.complete
    if not stream:
        assert response.messages == []


@pytest.mark.parametrize("api", PATHS)
async def test_failure_is_logged_once(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    logged_events = log_events(monkeypatch)
    response = await gateway.ask(body_of(api, temperature="hot"), path=PATHS[api])
    assert (await logged_events.failure()).status_code == response.status == 400


@pytest.mark.parametrize("api", ["responses", "messages"])
async def test_defaults_of_a_deployment_apply(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    use(monkeypatch, ours(gateway.backend, max_tokens=7, temperature=0.25, n=2, stop="x"))
    body = body_of(api)
    body.pop("max_tokens", None)
    response = await gateway.ask(body, path=PATHS[api])
    assert response.status == 200
    sampling = gateway.backend.requests[-1].sampling
    assert (sampling.max_tokens, sampling.temperature, sampling.n) == (7, 0.25, 1)
    if api == "responses":
        assert response.json["max_output_tokens"] == 7
