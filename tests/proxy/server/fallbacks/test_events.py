"""LiteLLM's hooks and log events of requests that fall back."""

from __future__ import annotations

from typing import Any

import litellm
import pytest
from litellm.integrations.custom_logger import CustomLogger

from tests.support.litellm.fallbacks import APIS, BROKEN, STREAM, ask, configure
from tests.support.litellm.log_events import log_events
from tests.support.litellm.own_route import Gateway
from tests.support.servers.fake_backend import FakeBackend


class Fallen(CustomLogger):  # type: ignore[misc]  # LiteLLM's types are not read
    """Records the events of fallbacks."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[str, str, str]] = []
        self.hooks = 0

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> dict[str, Any]:
        self.hooks += 1
        return data

    async def log_success_fallback_event(
        self, original_model_group: str, kwargs: dict[str, Any], original_exception: Exception
    ) -> None:
        self.events.append(("success", original_model_group, kwargs["model"]))

    async def log_failure_fallback_event(
        self, original_model_group: str, kwargs: dict[str, Any], original_exception: Exception
    ) -> None:
        self.events.append(("failure", original_model_group, kwargs["model"]))


@APIS
@STREAM
async def test_both_models_are_logged(
    gateway: Gateway, large: FakeBackend, monkeypatch: pytest.MonkeyPatch, api: str, stream: bool
) -> None:
    events, fallen = log_events(monkeypatch), Fallen()
    litellm.callbacks.append(fallen)
    configure(gateway, large, monkeypatch, fallbacks=[{"tiny": ["down", "large"]}])
    assert (await ask(gateway, api, stream=stream)).status == 200
    _, logged = await events.success()
    assert "large" in str(logged)
    failure = await events.failure()
    assert failure.status_code == 502
    assert fallen.events == [("failure", "tiny", "down"), ("success", "tiny", "large")]
    assert fallen.hooks == 1


async def test_failure_of_all_models_is_logged_once(
    gateway: Gateway, large: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = log_events(monkeypatch)
    large.scripts["hi"] = BROKEN
    assert (await ask(gateway, "chat")).status == 502
    assert (await events.failure()).status_code == 502
