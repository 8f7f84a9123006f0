"""Fallbacks to another provider's model, which LiteLLM serves, on each API."""

from __future__ import annotations

import json

import pytest

from tests.support.litellm.fallbacks import APIS, STREAM, ask, shown
from tests.support.litellm.guards import Masking, use_callback
from tests.support.litellm.own_route import PATHS, Gateway, body_of, chat
from tests.support.litellm.router import foreign, row, use
from tests.support.servers.fake_backend import KEY, FakeBackend
from tests.support.servers.redis_server import RedisServer, response_store
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import key_of
from tests.support.waiting import until
from toolgate_proxy.server.background.run import RUNNING
from toolgate_proxy.server.response_headers import own_headers
from toolgate_proxy.stack.processes import free_port


@APIS
@STREAM
async def test_another_providers_model_answers_through_litellm(
    gateway: Gateway, hosted: FakeBackend, api: str, stream: bool
) -> None:
    response = await ask(gateway, api, stream=stream, fallbacks=None)
    assert response.status == 299
    [passed] = gateway.host.passed
    sent = body_of(api, stream=stream, model="hosted", disable_fallbacks=True)
    assert json.loads(passed.body) == sent
    assert passed.path == PATHS[api]
    assert b"content-length" not in passed.headers
    assert passed.headers[b"x-litellm-call-id"].decode() == response.context.call_id
    headers = own_headers(response.context)
    assert headers["x-toolgate-fallback"] == "not-enforced"
    assert headers["x-toolgate-enforced"] == "none"
    assert headers["x-litellm-model-group"] == "hosted"
    assert hosted.requests == []


@APIS
@STREAM
async def test_the_next_model_is_tried_if_litellm_returns_an_error(
    gateway: Gateway, hosted: FakeBackend, api: str, stream: bool
) -> None:
    gateway.host.error = 500
    response = await ask(gateway, api, stream=stream)
    assert response.status == 200
    assert "From" in shown(response)
    headers = own_headers(response.context)
    assert headers["x-litellm-attempted-fallbacks"] == "2"
    assert "x-toolgate-fallback" not in headers
    assert headers["x-toolgate-enforced"] == "none"  # no tools


@APIS
async def test_guardrails_of_the_first_model_hold_for_another_providers(
    gateway: Gateway, hosted: FakeBackend, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    """Otherwise what they mask would be sent to it."""
    down = f"http://127.0.0.1:{free_port()}"
    params = {"api_base": down, "api_key": KEY, "guardrails": ["masking"]}
    use(monkeypatch, row("down", group="tiny", **params), foreign("hosted"))
    use_callback(monkeypatch, Masking("John", "NAME"))
    asked = await ask(gateway, api, fallbacks=["hosted"], guardrails=["other"])
    assert asked.status == 299
    [passed] = gateway.host.passed
    assert json.loads(passed.body)["guardrails"] == ["other", "masking"]


@APIS
async def test_keys_for_enforced_calls_only_skip_other_providers(
    gateway: Gateway, hosted: FakeBackend, api: str
) -> None:
    gateway.add_key("sk-1", key_of("sk-1", enforced_only=True))
    response = await ask(gateway, api, key="sk-1")
    assert (response.status, response.context.fallback) == (200, "large")
    assert not gateway.host.passed


async def test_model_in_the_path_is_replaced(gateway: Gateway, hosted: FakeBackend) -> None:
    response = await gateway.ask(chat(model=None), path="/engines/tiny/chat/completions")
    assert response.status == 299
    [passed] = gateway.host.passed
    assert passed.path == "/engines/hosted/chat/completions"
    assert json.loads(passed.body)["model"] == "hosted"


async def test_a_disconnected_client_ends_a_request_at_litellm(
    gateway: Gateway, hosted: FakeBackend
) -> None:
    gateway.host.pause = 30
    response = await gateway.ask(chat(), leave_after=1.0)
    assert response.messages == []
    assert len(gateway.host.passed) == 1


async def test_another_provider_gets_no_reasoning_that_only_the_gateway_can_read(
    gateway: Gateway, hosted: FakeBackend
) -> None:
    reasoning = {"type": "reasoning", "summary": [], "encrypted_content": "sealed"}
    message = {"role": "user", "content": "hi"}
    given = [message, reasoning, {"type": "message", "id": "msg_1", **message}]
    assert (await ask(gateway, "responses", input=given)).status == 299
    sent = json.loads(gateway.host.passed.pop().body)
    assert sent["input"] == [message, {"type": "message", **message}]
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "sealed"}
    text = {"type": "text", "text": "Hello"}
    given = [message, {"role": "assistant", "content": [thinking, text]}, message]
    asked = {"messages": given, "thinking": {"type": "adaptive"}}
    assert (await ask(gateway, "messages", **asked)).status == 299
    sent = json.loads(gateway.host.passed.pop().body)
    assert sent["messages"][1] == {"role": "assistant", "content": [text]}
    assert "thinking" not in sent


async def test_another_provider_gets_the_turns_of_a_stored_response(
    gateway: Gateway, hosted: FakeBackend
) -> None:
    gateway.backend.scripts["first"] = Script(("Well.",))
    first = await ask(gateway, "responses", input="first")
    more = {"previous_response_id": first.json["id"]}
    assert (await ask(gateway, "responses", input="hi", **more)).status == 299
    sent = json.loads(gateway.host.passed.pop().body)
    assert "previous_response_id" not in sent
    assert [item["role"] for item in sent["input"]] == ["user", "assistant", "user"]
    assert not [item for item in sent["input"] if "id" in item]


async def test_a_response_in_the_background_goes_on_to_our_models_only(
    gateway: Gateway, hosted: FakeBackend, redis_at_hand: RedisServer
) -> None:
    gateway.here.responses = response_store(redis_at_hand)
    response = await ask(gateway, "responses", background=True)
    assert response.json["status"] == "queued"
    await until(lambda: not RUNNING)
    stored = await gateway.here.responses.find("master key", response.json["id"])
    assert stored is not None
    assert (stored.body["status"], stored.body["model"]) == ("completed", "large")
    assert not gateway.host.passed
