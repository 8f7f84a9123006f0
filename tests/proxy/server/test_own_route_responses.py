"""The Responses API on the gateway's own route."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.apis.responses_api import LOOK
from tests.support.litellm.log_events import log_events
from tests.support.litellm.own_route import PATHS, Gateway, Response, ours
from tests.support.litellm.router import foreign, use
from tests.support.servers.script import Script, call

PATH = PATHS["responses"]


async def ask(gateway: Gateway, given: Any = "hi", **params: Any) -> Response:
    return await gateway.ask({"model": "tiny", "input": given, **params}, path=PATH)


@pytest.mark.parametrize("stream", [True, False])
async def test_log_event_has_the_response(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    logged_events = log_events(monkeypatch)
    gateway.backend.scripts["call"] = Script((call("look", {}),))
    response = await ask(gateway, "call", tools=[LOOK], stream=stream)
    assert response.status == 200
    call_type, logged = await logged_events.success()
    assert call_type == "aresponses"
    assert logged.output[0].name == "look"
    assert dict(logged.usage)["prompt_tokens"] == 11  # LiteLLM has one form for all APIs


async def test_a_log_event_has_the_tokens_of_a_compaction(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged_events = log_events(monkeypatch)
    gateway.backend.turns.append(Script(("They talked.",)))
    compact = {"model": "tiny", "input": "hello"}
    response = await gateway.ask(compact, path="/v1/responses/compact")
    assert response.status == 200, response.bodies
    call_type, logged = await logged_events.success()
    assert call_type == "aresponses"
    assert dict(logged.usage)["prompt_tokens"] == 11


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/responses/resp_1"),
        ("GET", "/v1/responses/resp_1/output"),
        ("GET", "/v1/responses/resp_1/"),
    ],
)
async def test_other_operations_are_refused(gateway: Gateway, method: str, path: str) -> None:
    response = await gateway.ask(b"{}", path=path, method=method)
    assert (response.status, response.json["error"]["code"]) == (404, "not_found")
    unknown = await gateway.ask(b"{}", path=path, method=method, key="sk-wrong")
    assert unknown.status == 401
    assert not gateway.host.passed


async def test_responses_of_other_providers_stay_litellms(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, ours(gateway.backend), foreign("hosted"))
    assert (await gateway.ask(b"", path="/v1/responses/resp_xyz", method="GET")).status == 299
    own = f"/v1/responses/resp_{'0a' * 16}"
    assert (await gateway.ask(b"", path=own, method="GET")).status == 404
