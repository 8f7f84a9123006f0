"""Which requests the gateway's own route passes on to LiteLLM, and which it refuses."""

from __future__ import annotations

import json

import pytest

from tests.support.litellm.own_route import CHAT, Gateway, chat, ours
from tests.support.litellm.router import foreign, use


async def test_other_requests_are_forwarded_to_litellm_unchanged(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, ours(gateway.backend), foreign("hosted"))
    for path, method, body in (
        (CHAT, "POST", json.dumps(chat(model="hosted", new_parameter=[1])).encode()),
        (CHAT, "POST", json.dumps(chat(model="unheard of")).encode()),
        ("/v1/responses", "POST", b'{"model": "hosted", "input": "hi"}'),
        ("/v1/messages", "POST", b'{"model": "hosted", "max_tokens": 5, "messages": []}'),
        ("/model/metrics", "POST", b"anything"),
        ("/model/info", "GET", b""),
        (CHAT, "GET", b""),
    ):
        response = await gateway.ask(body, path=path, method=method)
        assert response.status == 299
        passed = gateway.host.passed.pop()
        assert (passed.path, passed.body) == (path, body if method == "POST" else b"")
        assert passed.context is passed.carried is response.context


async def test_unsupported_model_is_forwarded_to_litellm_after_the_checks(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, ours(gateway.backend), default_litellm_params={"mock_response": "x"})
    assert (await gateway.ask(chat())).status == 299
    refused = await gateway.ask(chat(mock_response="Hello"))
    assert (refused.status, refused.json["error"]["param"]) == (400, "mock_response")
    unknown = await gateway.ask(chat(no_parameter=1))
    assert (unknown.status, unknown.json["error"]["param"]) == (400, "no_parameter")
    assert len(gateway.host.passed) == 1


@pytest.mark.parametrize(
    ("model", "status", "code", "reason"),
    [
        ("tiny", 400, "unsupported_parameter", "`mock_response` in default_litellm_params"),
        ("mixed", 400, "unsupported_parameter", "deployments of another provider"),
        ("unheard of", 404, "model_not_found", "does not exist"),
        (None, 400, "invalid_request", "model"),
    ],
)
async def test_responses_of_our_models_never_come_from_litellm(
    gateway: Gateway,
    monkeypatch: pytest.MonkeyPatch,
    model: str | None,
    status: int,
    code: str,
    reason: str,
) -> None:
    """Its bridge marks a call as complete that the maximum number of tokens cut."""
    mixed = (ours(gateway.backend, "mixed"), foreign("mixed"))
    use(monkeypatch, ours(gateway.backend), *mixed, default_litellm_params={"mock_response": "x"})
    for path in ("/v1/responses", "/responses", "/openai/v1/responses", "/v1/responses/"):
        refused = await gateway.ask({"model": model, "input": "hi"}, path=path)
        assert refused.status == status
        assert (refused.json["error"]["param"], refused.json["error"]["code"]) == ("model", code)
        assert reason in refused.json["error"]["message"]
    assert not gateway.host.passed


async def test_control_field_is_rejected_on_every_inference_path(gateway: Gateway) -> None:
    for path in (CHAT, "/v1/responses", "/v1/messages", "/v1/embeddings", "/v1/completions"):
        response = await gateway.ask({"model": "tiny", "api_base": "http://x"}, path=path)
        assert (response.status, response.json["error"]["param"]) == (400, "api_base")
    assert not gateway.host.passed
