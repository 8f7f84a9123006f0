"""Guardrails in the `litellm_params` of our models, on each API."""

from __future__ import annotations

import pytest

from tests.support.litellm.fallbacks import APIS, STREAM, ask, shown
from tests.support.litellm.guards import Guardrail, Masking, WholeGuardrail, use_callback
from tests.support.litellm.own_route import Gateway, asked, ours
from tests.support.litellm.router import use
from tests.support.servers.script import Script


@pytest.fixture(autouse=True)
def _models(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    guarded = ours(gateway.backend, guardrails=["no-names", "whole", "masking"])
    free = ours(gateway.backend, "free")
    free["model_info"]["id"] = "free"
    use(monkeypatch, guarded, free)


@APIS
@STREAM
@pytest.mark.parametrize("mode", ["pre_call", "during_call", "post_call"])
async def test_guardrail_of_a_model_refuses_in_its_mode(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str, stream: bool, mode: str
) -> None:
    use_callback(monkeypatch, Guardrail(mode, default_on=False))
    response = await ask(gateway, api, stream=stream)
    assert (response.status, "Not on Mondays." in shown(response)) == (400, True)
    assert "Hel" not in shown(response)
    assert bool(gateway.backend.requests) == (mode != "pre_call")
    assert (await ask(gateway, api, model="free", stream=stream)).status == 200
    assert not gateway.host.passed


@APIS
@STREAM
@pytest.mark.parametrize("mode", ["pre_call", "during_call", "post_call"])
async def test_guardrail_of_the_request_runs_besides(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str, stream: bool, mode: str
) -> None:
    """LiteLLM keeps the two in different places in Responses and Messages."""
    use_callback(monkeypatch, Guardrail(mode, default_on=False, name="mine"))
    assert (await ask(gateway, api, stream=stream)).status == 200
    assert (await ask(gateway, api, stream=stream, guardrails=["mine"])).status == 400


@APIS
async def test_guardrail_of_a_model_reads_whole_responses(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    guardrail = WholeGuardrail()
    guardrail.default_on = False
    use_callback(monkeypatch, guardrail)
    for stream in (True, False):
        assert (await ask(gateway, api, stream=stream)).status == 400
        assert (await ask(gateway, api, model="free", stream=stream)).status == 200


@APIS
async def test_guardrail_of_a_model_changes_its_requests(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    use_callback(monkeypatch, Masking("John", "NAME"))
    gateway.backend.scripts |= dict.fromkeys(("I am NAME", "I am John"), Script(("Hello",)))
    for model, sent in (("tiny", "I am NAME"), ("free", "I am John")):
        await ask(gateway, api, model=model, content="I am John")
        assert asked(gateway.backend)[-1] == sent


async def test_metadata_of_the_client_stay_as_they_are(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LiteLLM notes in them which guardrails ran."""
    use_callback(monkeypatch, Masking("John", "NAME"))
    response = await ask(gateway, "responses", metadata={"a": "b"})
    assert response.json["metadata"] == {"a": "b"}
