"""Request bodies that try to redirect or forge responses; every attempt fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.servers.fake_backend import FakeBackend, running
from tests.support.servers.gateway_process import MASTER_KEY, Gateway
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import make_key

CHAT = "/v1/chat/completions"
BODY = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
ELSEWHERE = "http://127.0.0.1:{port}"
STEERING: list[dict[str, Any]] = [
    {"api_base": ELSEWHERE},
    {"base_url": ELSEWHERE},
    {"api_base": ELSEWHERE, "api_key": "backend-key"},
    {"api_key": "sk-mine"},
    {"model_list": [{"model_name": "tiny", "litellm_params": {"model": "openai/x"}}]},
    {"user_config": {"model_list": []}},
    {"custom_llm_provider": "openai"},
    {"litellm_params": {"api_base": ELSEWHERE}},
    {"extra_body": {"api_base": ELSEWHERE}},
    {"extra_body": {"mock_response": "forged"}},
    {"mock_response": "forged"},
    {"mock_response": {"choices": []}},
    {"mock_tool_calls": [{"id": "1"}]},
    {"mock_timeout": True, "timeout": 0.01},
    {"mock_testing_fallbacks": True},
    {"mock_delay": 0.01, "mock_response": "forged"},
    {"fallbacks": ["down"]},
    {"fallbacks": [{"model": "down", "api_base": ELSEWHERE}]},
    {"context_window_fallback_dict": {"tiny": "down"}},
    {"num_retries": 50},
    {"headers": {"authorization": "x"}},
    {"ssl_verify": False},
    {"cache": {"no-cache": True}},
    {"guardrails": ["none"]},
    {"no-log": True},
    {"tags": ["free"]},
    {"litellm_metadata": {"user_api_key": "x"}},
    {"langfuse_host": ELSEWHERE},
    {"input_cost_per_token": 0},
    {"rpm": 10_000, "tpm": 10_000_000},
    {"litellm_call_id": "mine"},
    {"metadata": {"api_base": ELSEWHERE}},
    {"deployment_id": "../../invocations?x="},
    {"extra_body": {"deployment_id": "x"}},
    {"router_settings_override": {"num_retries": 5}},
    {"additional_drop_params": ["tools"], "tools": []},
    {"_skip_mcp_handler": True},
    {"some_day_an_order": True},
    {"model": "tiny,tiny,tiny"},
    {"metadata": {"mock_response": "forged", "user_api_key_metadata": {"models": []}}},
]


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[FakeBackend]:
    """A backend that the gateway is not configured to use."""
    with running(FakeBackend()) as backend:
        backend.scripts["hi"] = Script(("forged",))
        yield backend


@pytest.fixture(scope="module")
def key(gateway_of_session: Gateway, redis_of_gateway: RedisServer) -> str:
    """One for all tests, because a gateway takes 0.1 s to know a new key."""
    made = make_key(redis_of_gateway.url, gateway_of_session.url, models=("tiny",), rpm=10_000)
    return asyncio.run(made)[0]


@pytest.fixture(autouse=True)
def _script(backend: FakeBackend) -> None:
    backend.scripts["hi"] = Script(("Hello there",))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("extra", STEERING, ids=lambda extra: "+".join(extra))
async def test_no_field_redirects_or_forges_a_response(
    gateway: str,
    key: str,
    backend: FakeBackend,
    elsewhere: FakeBackend,
    extra: dict[str, Any],
    stream: bool,
) -> None:
    """Refused, or answered by the backend that the operator named."""
    port = urlsplit(elsewhere.url).port
    text = json.dumps(BODY | extra | {"stream": stream}).replace("{port}", str(port))
    async with http_client(gateway, timeout=20) as http:
        for sent in (key, MASTER_KEY):
            before = len(backend.requests)
            headers = bearer(sent) | {"content-type": "application/json"}
            response = await http.post(CHAT, content=text, headers=headers)
            assert "forged" not in response.text
            if response.status_code == 200:
                assert len(backend.requests) == before + 1
            else:
                assert response.status_code in (400, 403), response.text
                assert len(backend.requests) == before
    assert not elsewhere.requests


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/v1/responses", {"input": "hi"}),
        ("/v1/messages", {"max_tokens": 9}),
        ("/chat/completions", {}),
        ("/v1/completions", {"prompt": "hi"}),
        ("/v1/embeddings", {"input": "hi"}),
        ("/engines/tiny/chat/completions", {}),
        ("/openai/deployments/tiny/chat/completions", {}),
        ("/openai/deployments/tiny,tiny/chat/completions", {}),
        ("/v1/chat/completions/", {}),
    ],
)
async def test_no_other_path_accepts_a_mock_response(
    gateway: str, key: str, path: str, more: dict[str, Any]
) -> None:
    async with http_client(gateway, timeout=20, headers=bearer(key)) as http:
        response = await http.post(path, json=BODY | more | {"mock_response": "forged"})
    assert "forged" not in response.text
    assert response.status_code in (307, 400, 403, 404, 405), response.text


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"model=tiny&mock_response=forged&messages=[]", "application/x-www-form-urlencoded"),
        (
            b'--b\r\nContent-Disposition: form-data; name="mock_response"\r\n\r\nforged\r\n--b--',
            "multipart/form-data; boundary=b",
        ),
        (json.dumps(BODY | {"mock_response": "forged"}).encode("utf-16"), "application/json"),
        (
            b'{"mock_response":"forged",' + json.dumps(BODY)[1:-1].encode() + b',"x":"\\ud800"}',
            None,
        ),
        (b"\xef\xbb\xbf" + json.dumps(BODY | {"mock_response": "forged"}).encode(), None),
        (b'{"mock\\u005fresponse":"forged",' + json.dumps(BODY)[1:].encode(), None),
        (json.dumps(BODY).encode()[:-1] + b',"mock_response":"forged"', None),
        (b"[" * 5000, None),
    ],
)
async def test_no_encoding_of_the_body_hides_a_mock_response(
    gateway: str, key: str, content: bytes, kind: str | None
) -> None:
    headers = bearer(key) | {"content-type": kind or "application/json"}
    async with http_client(gateway, timeout=20) as http:
        response = await http.post(CHAT, content=content, headers=headers)
    assert response.status_code == 400, response.text
    assert "forged" not in response.text
