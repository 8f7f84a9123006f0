"""Hooks of callbacks right before and after a deployment, on each API."""

from __future__ import annotations

from typing import Any

import pytest
from litellm.integrations.custom_logger import CustomLogger

from tests.support.litellm.fallbacks import APIS, STREAM, ask, shown
from tests.support.litellm.guards import TOOLS, Change, changed, refusal, use_callback
from tests.support.litellm.own_route import Gateway

CALL_TYPES = {
    "chat": "acompletion",
    "responses": "aresponses",
    "messages": "anthropic_messages",
}


class AtDeployment(CustomLogger):  # type: ignore[misc]  # LiteLLM's types are not read
    def __init__(self, change: Change | None = None, **sets: Any) -> None:
        super().__init__()
        self._change = change
        self._sets = sets
        self.seen: list[tuple[Any, Any]] = []
        self.fails = False

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: Any) -> Any:
        self.seen.append((kwargs["model"], call_type.value))
        if self.fails:
            raise refusal()
        return kwargs | self._sets

    async def async_post_call_success_deployment_hook(
        self, request_data: dict[str, Any], response: Any, call_type: Any
    ) -> Any:
        return None if self._change is None else changed(response, self._change)

    async def async_post_call_streaming_deployment_hook(
        self, request_data: dict[str, Any], response_chunk: Any, call_type: Any
    ) -> Any:
        return None if self._change is None else changed(response_chunk, self._change)


@APIS
@STREAM
async def test_hook_before_a_deployment_changes_parameters(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str, stream: bool
) -> None:
    """Not whether the response is streamed."""
    callback = AtDeployment(temperature=0.25, stream=not stream, model="another")
    use_callback(monkeypatch, callback)
    response = await ask(gateway, api, stream=stream)
    assert response.status == 200
    assert response.headers[b"content-type"].startswith(b"text/event-stream") == stream
    assert gateway.backend.requests[-1].sampling.temperature == 0.25
    assert callback.seen == [("toolgate/tiny", CALL_TYPES[api])]
    assert not gateway.host.passed


@APIS
async def test_hook_before_a_deployment_refuses(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    callback = AtDeployment()
    callback.fails = True
    use_callback(monkeypatch, callback)
    response = await ask(gateway, api)
    assert (response.status, "Not on Mondays." in shown(response)) == (400, True)
    assert gateway.backend.requests == []


@APIS
@STREAM
async def test_hook_after_a_deployment_changes_the_text(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str, stream: bool
) -> None:
    use_callback(monkeypatch, AtDeployment(lambda text: text.replace("Hel", "Jel")))
    response = await ask(gateway, api, stream=stream)
    assert response.status == 200
    assert "Jel" in shown(response)
    assert "Hel" not in shown(response)


@APIS
@STREAM
async def test_calls_that_it_changes_are_validated(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str, stream: bool
) -> None:
    for new, code in (("Q", None), ("Y", "tool_schema_violation")):
        use_callback(monkeypatch, AtDeployment(lambda text, new=new: text.replace("Z", new)))  # type: ignore[misc]
        response = await ask(gateway, api, content="call", stream=stream, tools=TOOLS[api])
        assert response.context.error_code == code


@APIS
async def test_hook_that_fails_at_a_chunk_changes_nothing(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    def fails(text: str) -> str:
        raise refusal()

    use_callback(monkeypatch, AtDeployment(fails))
    for stream in (True, False):
        response = await ask(gateway, api, stream=stream)
        assert (response.status, response.context.failed) == (200, False)
        assert "there" in shown(response)
