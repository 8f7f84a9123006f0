"""Fallbacks to a model of ours with guardrails of its own, on each API."""

from __future__ import annotations

import pytest

from tests.support.litellm.fallbacks import APIS, STREAM, ask, shown
from tests.support.litellm.guards import MARK, Guardrail, Masking, Unified, use_callback
from tests.support.litellm.own_route import Gateway, asked, ours
from tests.support.litellm.router import use
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.script import Script
from toolgate_proxy.litellm_host.deployments import fallbacks


@pytest.fixture(autouse=True)
def _models(gateway: Gateway, large: FakeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway.configure(keepalive_seconds=0)
    guarded = ours(large, "large", guardrails=["no-names", "masking"])
    guarded["model_info"]["id"] = "large"
    retried = {"large": {"InternalServerErrorRetries": 1}}
    settings = {"fallbacks": [{"tiny": ["large"]}], "model_group_retry_policy": retried}
    use(monkeypatch, ours(gateway.backend), guarded, **settings)
    monkeypatch.setattr(fallbacks, "FIRST_DELAY", 0.0)


@APIS
@STREAM
@pytest.mark.parametrize("mode", ["pre_call", "during_call", "post_call"])
async def test_guardrail_of_the_fallback_refuses_in_its_mode(
    gateway: Gateway,
    large: FakeBackend,
    monkeypatch: pytest.MonkeyPatch,
    api: str,
    stream: bool,
    mode: str,
) -> None:
    use_callback(monkeypatch, Guardrail(mode, default_on=False))
    response = await ask(gateway, api, stream=stream)
    assert (response.status, "Not on Mondays." in shown(response)) == (400, True)
    assert "From" not in shown(response)
    assert bool(large.requests) == (mode != "pre_call")


@APIS
async def test_it_does_not_run_for_the_first_model(
    gateway: Gateway, large: FakeBackend, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    gateway.backend.scripts["hi"] = Script(("Hello there",))
    for mode in ("pre_call", "during_call", "post_call"):
        use_callback(monkeypatch, Guardrail(mode, default_on=False))
        assert (await ask(gateway, api)).status == 200
    assert large.requests == []


@APIS
async def test_request_that_it_changes_is_retried_as_changed(
    gateway: Gateway, large: FakeBackend, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    use_callback(monkeypatch, Masking("John", "NAME"))
    broken = Script(("x",), error_status=500, error={"message": "!", "code": "enforcement_failed"})
    for backend in (gateway.backend, large):
        backend.scripts |= {"I am John": broken, "I am NAME": broken}
    await ask(gateway, api, content="I am John")
    assert asked(gateway.backend) == ["I am John"]
    assert asked(large) == ["I am NAME", "I am NAME"]


@APIS
async def test_guardrail_sees_the_texts_of_a_requested_fallback(
    gateway: Gateway, large: FakeBackend, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    """It needs no guardrail of its own."""
    large.scripts |= dict.fromkeys(("hidden", MARK), Script(("From the large one",)))
    told = "input" if api == "responses" else "messages"
    fallback = {"model": "large", told: [{"role": "user", "content": MARK}]}
    use_callback(monkeypatch, Unified())
    assert (await ask(gateway, api, fallbacks=[fallback])).status == 200
    assert asked(large) == ["hidden"]
    use_callback(monkeypatch, Unified("during_call"))
    response = await ask(gateway, api, fallbacks=[fallback])
    assert (response.status, "Not on Mondays." in shown(response)) == (400, True)
