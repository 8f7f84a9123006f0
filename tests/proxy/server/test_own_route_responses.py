"""The Responses API on the gateway's own route."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.apis.responses_api import LOOK, accumulated, check_response
from tests.support.apis.typed_events import read_events
from tests.support.litellm.log_events import log_events
from tests.support.litellm.own_route import PATHS, Gateway, Response, ours
from tests.support.litellm.router import foreign, use
from tests.support.servers.script import Script, call
from toolgate_proxy.server.response_headers import own_headers

PATH = PATHS["responses"]
CODEX = Path(__file__).parents[1] / "api" / "responses" / "codex"


async def ask(gateway: Gateway, given: Any = "hi", **params: Any) -> Response:
    return await gateway.ask({"model": "tiny", "input": given, **params}, path=PATH)


def events_of(response: Response) -> list[dict[str, Any]]:
    return read_events(b"".join(response.bodies))


async def test_our_models_are_served_here(gateway: Gateway) -> None:
    whole = await ask(gateway)
    assert whole.status == 200
    check_response(whole.json)
    assert whole.json["output"][0]["content"][0]["text"] == "Hello there"
    made = events_of(await ask(gateway, stream=True))
    assert accumulated(made) == made[-1]["response"]["output"]
    assert made[-1]["response"]["usage"] == whole.json["usage"]
    assert not gateway.host.passed


async def test_input_of_a_wrong_type_is_a_400(gateway: Gateway) -> None:
    response = await ask(gateway, 5)
    assert (response.status, response.json["error"]["param"]) == (400, "input")


async def test_omitted_tools_are_in_a_header(gateway: Gateway) -> None:
    tools = [{"type": "web_search"}, LOOK, {"type": "image_generation"}]
    response = await ask(gateway, tools=tools)
    omitted = own_headers(response.context)["x-toolgate-omitted-tools"]
    assert omitted == "web_search,image_generation"
    assert [tool["name"] for tool in response.json["tools"]] == ["look"]
    gateway.configure(hosted_tools="refuse")
    refused = await ask(gateway, tools=tools)
    assert (refused.status, refused.json["error"]["param"]) == (400, "tools[0]")


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


@pytest.mark.parametrize("stream", [True, False])
async def test_a_request_of_codex_with_its_own_provider_is_answered(
    gateway: Gateway, stream: bool
) -> None:
    """The header names what is left out."""
    sent = json.loads((CODEX / "0.169-openai_base_url.json").read_text())
    gateway.backend.turns.append(Script(("I see it.",)))
    response = await gateway.ask(sent | {"stream": stream}, path=PATH)
    assert response.status == 200, response.bodies
    history = own_headers(response.context)["x-toolgate-history"]
    assert history.startswith("left_out=input[0].internal_chat_message_metadata_passthrough")
