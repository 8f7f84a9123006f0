"""Parameters of LiteLLM in requests for our models."""

from __future__ import annotations

from typing import Any

import litellm
import pytest
from litellm.integrations.custom_logger import CustomLogger

from tests.support.litellm.own_route import PATHS, Gateway, body_of, ours
from tests.support.litellm.router import use
from tests.support.servers.script import Script

APIS = pytest.mark.parametrize("api", list(PATHS))
PARAMETERS: dict[str, Any] = {
    "tags": ["gold"],
    "guardrails": ["no-names"],
    "cache": {"no-cache": True},
    "litellm_metadata": {"trace": "a"},
    "user": "someone",
    "fallbacks": ["tiny"],
}


class Observer(CustomLogger):  # type: ignore[misc]  # LiteLLM's types are not read
    def __init__(self) -> None:
        super().__init__()
        self.data: dict[str, Any] = {}

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> None:
        self.data = data


@APIS
@pytest.mark.parametrize("observed", [True, False])
async def test_parameters_are_accepted(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str, observed: bool
) -> None:
    observer = Observer()
    monkeypatch.setattr(litellm, "callbacks", [observer] if observed else [])
    for name, value in PARAMETERS.items():
        response = await gateway.ask(body_of(api, **{name: value}), path=PATHS[api])
        assert response.status == 200, (name, response.bodies)
    response = await gateway.ask(body_of(api, **PARAMETERS), path=PATHS[api])
    assert response.status == 200
    if observed:
        assert "gold" in str(observer.data)
        assert "no-names" in str(observer.data)
        assert observer.data["user"] == "someone"


@APIS
@pytest.mark.parametrize("observed", [True, False])
async def test_values_of_another_type_are_refused(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str, observed: bool
) -> None:
    monkeypatch.setattr(litellm, "callbacks", [Observer()] if observed else [])
    for name in PARAMETERS.keys() - {"user"}:
        response = await gateway.ask(body_of(api, **{name: 3}), path=PATHS[api])
        assert (response.status, response.context.error_code) == (400, "invalid_request"), name


@APIS
async def test_tags_of_a_request_choose_the_deployment(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    gold = ours(gateway.backend, tags=["gold"], temperature=0.25)
    lead = ours(gateway.backend, tags=["lead"], temperature=0.75)
    lead["model_info"]["id"] = "b"
    use(monkeypatch, gold, lead, enable_tag_filtering=True)
    gateway.backend.scripts["hi"] = Script(("Hello there",))
    for tag, temperature in (("gold", 0.25), ("lead", 0.75), ("gold", 0.25)):
        response = await gateway.ask(body_of(api, tags=[tag]), path=PATHS[api])
        assert response.status == 200
        assert gateway.backend.requests[-1].sampling.temperature == temperature
