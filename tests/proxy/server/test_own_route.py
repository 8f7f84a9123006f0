"""Responses, errors and keys of the gateway's own route."""

from __future__ import annotations

import pytest

from tests.support.litellm.own_route import TICK, Gateway, chat, ours
from tests.support.litellm.router import Row, foreign, use
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import key_of
from toolgate_proxy.api.shared.output import COMMENT
from toolgate_proxy.backend_client.event_stream import SseParser
from toolgate_proxy.keys.key import new_key
from toolgate_proxy.litellm_host.deployments import choice
from toolgate_proxy.litellm_host.deployments.selection import Selection
from toolgate_proxy.server.response_headers import own_headers


async def test_whole_response_has_length_type_and_call_id_headers(gateway: Gateway) -> None:
    response = await gateway.ask(chat())
    assert (response.status, response.text) == (200, "Hello there")
    assert response.json["model"] == "tiny"
    assert response.headers[b"content-type"] == b"application/json"
    assert int(response.headers[b"content-length"]) == len(response.bodies[0])
    assert response.headers[b"x-litellm-call-id"].decode() == response.context.call_id
    assert response.context.complete
    assert (response.context.prompt_tokens, response.context.model) == (11, "tiny")
    assert not gateway.host.passed


async def test_stream_has_events_usage_and_done(gateway: Gateway) -> None:
    body = chat(stream=True, stream_options={"include_usage": True})
    response = await gateway.ask(body)
    assert (response.status, response.text) == (200, "Hello there")
    assert response.headers[b"content-type"] == b"text/event-stream; charset=utf-8"
    assert response.headers[b"cache-control"] == b"no-cache"
    assert b"content-length" not in response.headers
    assert response.events[-1]["usage"]["prompt_tokens"] == 11
    assert response.bodies[-1].endswith(b"data: [DONE]\n\n")
    last = [message.get("more_body", False) for message in response.messages[1:]]
    assert last == [True] * (len(last) - 1) + [False]
    assert response.context.complete


async def test_events_received_together_are_sent_together(gateway: Gateway) -> None:
    """The first bytes are the role and the first text."""
    gateway.backend.scripts["long"] = Script(("word " * 60,))
    response = await gateway.ask(chat("long", stream=True))
    assert len(SseParser().feed(response.bodies[0])) >= 2
    assert response.text == "word " * 60


@pytest.mark.parametrize("path", ["/engines/tiny/chat/completions", "/openai/deployments/tiny"
                                  "/chat/completions"])  # fmt: skip
async def test_model_in_the_path_overrides_the_body(gateway: Gateway, path: str) -> None:
    for model in (None, "tiny", "other"):
        response = await gateway.ask(chat(model=model), path=path)
        assert (response.status, response.json["model"]) == (200, "tiny")


async def test_deployment_defaults_fill_fields_missing_from_the_request(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = {"temperature": 0.125, "max_tokens": 7, "extra_body": {"top_k": 3}}
    use(monkeypatch, ours(gateway.backend, **params))
    assert (await gateway.ask(chat(temperature=0.5))).status == 200
    sampling = gateway.backend.requests[-1].sampling
    assert (sampling.temperature, sampling.max_tokens, sampling.top_k) == (0.5, 7, 3)


@pytest.mark.parametrize("stream", [True, False])
async def test_error_before_the_response_has_its_status(gateway: Gateway, stream: bool) -> None:
    error = {"message": "Wait.", "code": "busy"}
    gateway.backend.scripts["busy"] = Script(("x",), error_status=503, error=error)
    for body, status, code in (
        (chat(temperature="hot", stream=stream), 400, "invalid_request"),
        (chat(no_parameter=1, stream=stream), 400, "unsupported_parameter"),
        (chat("busy", stream=stream), 503, "backend_unavailable"),
    ):
        response = await gateway.ask(body)
        assert (response.status, response.json["error"]["code"]) == (status, code)
        assert int(response.headers[b"content-length"]) == len(response.bodies[0])
        assert b"x-litellm-call-id" in response.headers


async def test_unexpected_exception_is_a_500_without_its_message(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> Selection:
        raise KeyError("a secret")

    monkeypatch.setattr(choice, "selection", fail)
    response = await gateway.ask(chat())
    assert (response.status, response.json["error"]["code"]) == (500, "internal_error")
    assert b"secret" not in response.bodies[0]


@pytest.mark.parametrize("body", [b"{", b"[]", b""])
async def test_body_that_is_not_a_json_object_is_rejected(gateway: Gateway, body: bytes) -> None:
    response = await gateway.ask(body)
    assert (response.status, response.json["error"]["type"]) == (400, "invalid_request_error")


async def test_invalid_key_is_rejected_before_the_body_is_read(gateway: Gateway) -> None:
    for key in ("sk-wrong", None):
        response = await gateway.ask(b"{not even JSON", key=key)
        assert (response.status, response.json["error"]["code"]) == (401, "invalid_api_key")


async def test_virtual_key_allows_only_its_models(gateway: Gateway) -> None:
    sent = new_key()
    gateway.add_key(sent, key_of(sent, alias="mine", models=("other",)))
    refused = await gateway.ask(chat(), key=sent)
    assert (refused.status, refused.json["error"]["code"]) == (403, "permission_denied")
    gateway.add_key(sent, key_of(sent, alias="mine", models=("tiny",)))
    allowed = await gateway.ask(chat(), key=sent)
    assert allowed.status == 200
    assert allowed.context.key is not None
    assert allowed.context.key.alias == "mine"


async def test_key_limits_are_enforced(gateway: Gateway) -> None:
    sent = new_key()
    gateway.add_key(sent, key_of(sent, rpm=1))
    first, second = [await gateway.ask(chat(), key=sent) for _ in range(2)]
    assert (first.status, second.status) == (200, 429)
    assert second.json["error"]["code"] == "rate_limit_exceeded"
    assert int(second.headers[b"retry-after"]) > 0
    assert first.context.lease is not None
    assert second.context.lease is None


async def test_only_streams_get_keep_alive_comments(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On both routes."""
    gateway.backend.scripts["queued"] = Script(("Hello",), queued=TICK * 6)
    gateway.host.pause = TICK * 6
    use(monkeypatch, ours(gateway.backend), foreign("hosted"))
    for model in ("tiny", "hosted"):
        for stream in (True, False):
            response = await gateway.ask(chat("queued", model=model, stream=stream))
            body = b"".join(response.bodies)
            assert body.startswith(COMMENT) is stream
            assert (COMMENT in body) is stream


async def test_litellms_router_may_choose_the_deployment(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its limits: `enforce_model_rate_limits` counts requests of a deployment."""
    settings: Row = {"optional_pre_call_checks": ["enforce_model_rate_limits"]}
    use(monkeypatch, ours(gateway.backend, rpm=2), **settings)
    statuses = [(await gateway.ask(chat())).status for _ in range(3)]
    assert statuses == [200, 200, 429]


async def test_unknown_parameters_are_ignored_if_the_operator_wants_so(gateway: Gateway) -> None:
    assert (await gateway.ask(chat(num_ctx=4096))).status == 400
    gateway.configure(unknown_parameters="ignore")
    response = await gateway.ask(chat(num_ctx=4096, think=False, max_tokens=9))
    assert response.status == 200
    headers = own_headers(response.context)
    assert headers["x-toolgate-ignored-parameters"] == "num_ctx,think"
    assert gateway.backend.requests[-1].sampling.max_tokens == 9
    # Invalid values of known parameters are no unknown parameters.
    assert (await gateway.ask(chat(temperature="hot"))).status == 400
