"""Fallbacks to another model of ours, on each API."""

from __future__ import annotations

from typing import Any

import pytest
from litellm.proxy import proxy_server

from tests.support.litellm.fallbacks import APIS, FORMS, KEYS, STREAM, ask, configure, naming, shown
from tests.support.litellm.own_route import Gateway, body_of
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import key_of
from toolgate_core.errors import ContextLengthExceeded
from toolgate_proxy.litellm_host.deployments import fallbacks
from toolgate_proxy.server.response_headers import own_headers


@APIS
@STREAM
@pytest.mark.parametrize("model", ["tiny", "down"])
async def test_another_model_of_ours_answers(
    gateway: Gateway,
    large: FakeBackend,
    monkeypatch: pytest.MonkeyPatch,
    api: str,
    stream: bool,
    model: str,
) -> None:
    """The backend refused the request, or can't be reached."""
    configure(gateway, large, monkeypatch, fallbacks=[{model: ["large"]}])
    response = await ask(gateway, api, model=model, stream=stream)
    assert response.status == 200
    assert len(large.requests) == 1
    content = shown(response)
    assert "From" in content
    assert '"model":"large"' in content
    headers = own_headers(response.context)
    assert headers["x-litellm-model-group"] == "large"
    assert headers["x-litellm-attempted-fallbacks"] == "1"
    assert "x-toolgate-fallback" not in headers
    assert response.context.model == model
    assert not gateway.host.passed


@APIS
async def test_a_model_that_responds_has_no_headers_of_fallbacks(
    gateway: Gateway, large: FakeBackend, api: str
) -> None:
    response = await ask(gateway, api, model="large")
    assert response.status == 200
    named = [name for name in own_headers(response.context) if name.startswith("x-litellm")]
    assert named == ["x-litellm-model-id"]


@APIS
@STREAM
async def test_the_first_error_is_reported_if_all_models_fail(
    gateway: Gateway, large: FakeBackend, api: str, stream: bool
) -> None:
    large.scripts["hi"] = Script(("x",), error_status=503, error={"message": "Full."})
    response = await ask(gateway, api, stream=stream)
    assert response.status == 502
    assert "It broke." in shown(response)
    assert len(large.requests) == 1
    assert "x-litellm-model-group" not in own_headers(response.context)


@APIS
async def test_a_stream_that_has_begun_ends_with_the_error(
    gateway: Gateway, large: FakeBackend, api: str
) -> None:
    gateway.backend.scripts["hi"] = Script(("Hello there you",), error_after=3, pause=0.02)
    response = await ask(gateway, api, stream=True)
    assert response.context.error_code == "enforcement_failed"
    assert large.requests == []


@APIS
async def test_a_whole_response_that_breaks_off_moves(
    gateway: Gateway, large: FakeBackend, api: str
) -> None:
    """Nothing of it was sent."""
    gateway.backend.scripts["hi"] = Script(("Hello there you",), error_after=3)
    response = await ask(gateway, api)
    assert response.status == 200
    assert "From the large one" in shown(response)
    assert "Hello" not in shown(response)


@APIS
async def test_an_invalid_request_does_not_move(
    gateway: Gateway, large: FakeBackend, api: str
) -> None:
    response = await ask(gateway, api, temperature="hot")
    assert response.status == 400
    assert large.requests == []


@APIS
async def test_prompt_that_is_too_long_has_fallbacks_of_its_own(
    gateway: Gateway, large: FakeBackend, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    settings = {"fallbacks": [{"tiny": ["down"]}], "context_window_fallbacks": [{"*": ["large"]}]}
    configure(gateway, large, monkeypatch, **settings)
    error = ContextLengthExceeded("Too long.").body()["error"]
    gateway.backend.scripts["hi"] = Script(("x",), error_status=400, error=error)
    response = await ask(gateway, api)
    assert (response.status, response.context.fallback) == (200, "large")


@APIS
@STREAM
async def test_a_request_names_its_own_fallbacks(
    gateway: Gateway, large: FakeBackend, monkeypatch: pytest.MonkeyPatch, api: str, stream: bool
) -> None:
    configure(gateway, large, monkeypatch)
    own = [{"model": "down"}, {"model": "large", "temperature": 0.25}]
    response = await ask(gateway, api, stream=stream, fallbacks=own)
    assert response.status == 200
    assert own_headers(response.context)["x-litellm-attempted-fallbacks"] == "2"
    assert large.requests[0].sampling.temperature == 0.25
    refused = await ask(gateway, api, fallbacks=[{"api_base": "http://x"}])
    assert (refused.status, refused.context.error_code) == (400, "invalid_request")


@APIS
async def test_a_fallback_of_a_request_sets_parameters_only(
    gateway: Gateway, large: FakeBackend, api: str
) -> None:
    for model in ("large", "hosted"):
        refused = await ask(gateway, api, fallbacks=[{"model": model, "api_base": "http://x"}])
        assert (refused.status, refused.context.error_code) == (400, "unsupported_parameter")
        assert not gateway.backend.requests
    unknown = await ask(gateway, api, fallbacks=[{"model": "large", "no_parameter": 1}])
    assert (unknown.status, large.requests) == (502, [])
    assert not gateway.host.passed


@FORMS
@KEYS
async def test_a_key_never_gets_a_fallback_that_it_names_and_may_not_use(
    gateway: Gateway, large: FakeBackend, form: str, model: str, terms: Any
) -> None:
    gateway.add_key("sk-1", key_of("sk-1", **terms))
    refused = await ask(gateway, "chat", key="sk-1", fallbacks=naming(model)[form])
    assert refused.status >= 400
    assert not [*large.requests, *gateway.host.passed]


@APIS
async def test_a_key_must_be_allowed_the_fallbacks_that_it_names(
    gateway: Gateway, large: FakeBackend, api: str
) -> None:
    gateway.add_key("sk-1", key_of("sk-1", models=("tiny",)))
    refused = await ask(gateway, api, key="sk-1", fallbacks=["large"])
    assert (refused.status, refused.context.error_code) == (403, "permission_denied")
    assert not gateway.backend.requests
    assert (await ask(gateway, api, key="sk-1", fallbacks=["tiny"])).status == 502


@APIS
async def test_a_key_needs_no_permission_for_configured_fallbacks_unless_it_is_required(
    gateway: Gateway, large: FakeBackend, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    """As in LiteLLM."""
    gateway.add_key("sk-1", key_of("sk-1", models=("tiny",)))
    assert (await ask(gateway, api, key="sk-1")).status == 200
    monkeypatch.setitem(proxy_server.general_settings, "enforce_fallback_model_access", True)
    assert (await ask(gateway, api, key="sk-1")).status == 502


@pytest.mark.parametrize(
    ("api", "path"),
    [("responses", "/v1/responses/input_tokens"), ("messages", "/v1/messages/count_tokens")],
)
async def test_tokens_are_counted_for_the_model_of_the_request_only(
    gateway: Gateway, large: FakeBackend, api: str, path: str
) -> None:
    response = await gateway.ask(body_of(api), path=path)
    assert response.status == 502
    assert not large.counts


@APIS
@STREAM
async def test_retry_policy_repeats_the_request_before_fallbacks(
    gateway: Gateway, large: FakeBackend, monkeypatch: pytest.MonkeyPatch, api: str, stream: bool
) -> None:
    monkeypatch.setattr(fallbacks, "FIRST_DELAY", 0.0)
    error = {"message": "It broke.", "code": "enforcement_failed"}
    broken = Script(("x",), error_status=500, error=error)
    for allowed, failures, model in ((2, 2, None), (1, 2, "large")):
        policy = {"InternalServerErrorRetries": allowed}
        settings = {"fallbacks": [{"tiny": ["large"]}], "retry_policy": policy}
        configure(gateway, large, monkeypatch, **settings)
        del gateway.backend.scripts["hi"]
        gateway.backend.turns[:] = [*[broken] * failures, Script(("Hello there",))]
        response = await ask(gateway, api, stream=stream)
        assert (response.status, response.context.fallback) == (200, model)
        assert len(gateway.backend.requests) == allowed + 1
        gateway.backend.clear()
        gateway.backend.scripts["hi"] = broken
