"""Operations that Toolgate models do not support, through a running gateway."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.litellm.routes import OWN_ROUTE_ONLY
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.http_client import bearer, http_client

BODIES: dict[str, dict[str, Any]] = {
    "/v1/embeddings": {"input": "x"},
    "/engines/tiny/embeddings": {"input": "x"},
    "/openai/deployments/tiny/embeddings": {"input": "x"},
    "/v1/images/generations": {"prompt": "x"},
    "/v1/audio/speech": {"input": "x", "voice": "alloy"},
    "/v1/rerank": {"query": "x", "documents": ["a"]},
    "/v1/ocr": {"document": {"type": "document_url", "document_url": "http://127.0.0.1:1"}},
    "/v1/completions": {"prompt": ["x", "y"]},
}  # fmt: skip
"""Requests by path, without `model`."""
BODIES_OF_PROVIDERS: dict[str, dict[str, Any]] = {
    "/v1/moderations": {"input": "x"},
    "/v1/videos": {"prompt": "x"},
    "/v1/batches": {
        "input_file_id": "x", "endpoint": "/v1/chat/completions", "completion_window": "24h"
    },
    "/v1/vector_stores": {"name": "x"},
}  # fmt: skip
"""Those that LiteLLM sends to a provider, whatever the model is."""
FORMS = {"/v1/audio/transcriptions": "file", "/v1/images/edits": "image"}
"""Field of the file, by path."""


def check(response: httpx.Response) -> None:
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert (error["type"], error["param"], error["code"]) == (
        "invalid_request_error",
        "model",
        "invalid_request",
    )
    assert "support" in error["message"]
    assert error["message"].endswith("Use chat completions, or a model of another provider.")


@OWN_ROUTE_ONLY
@pytest.mark.parametrize("path", BODIES)
async def test_unsupported_operation_returns_400(
    http: httpx.AsyncClient, backend: FakeBackend, path: str
) -> None:
    check(await http.post(path, json={"model": "tiny", **BODIES[path]}))
    assert not backend.requests


@OWN_ROUTE_ONLY
@pytest.mark.parametrize("path", BODIES_OF_PROVIDERS)
async def test_operation_of_a_provider_that_is_not_configured_returns_404(
    http: httpx.AsyncClient, backend: FakeBackend, path: str
) -> None:
    response = await http.post(path, json={"model": "tiny", **BODIES_OF_PROVIDERS[path]})
    assert response.status_code == 404, response.text
    error = response.json()["error"]
    assert error["code"] == "route_not_found"
    assert "nothing was sent" in error["message"]
    assert not backend.requests


@OWN_ROUTE_ONLY
@pytest.mark.parametrize("path", FORMS)
async def test_unsupported_operation_on_a_file_returns_400(
    http: httpx.AsyncClient, path: str
) -> None:
    files = {FORMS[path]: ("a.png", b"\x89PNG\r\n\x1a\n", "image/png")}
    check(await http.post(path, data={"model": "tiny", "prompt": "x"}, files=files))


@pytest.mark.parametrize(
    ("path", "key", "status", "named", "words"),
    [
        ("tiny:generateContent", None, 400, "INVALID_ARGUMENT", "Google's generateContent. Use"),
        ("tiny:streamGenerateContent", None, 400, "INVALID_ARGUMENT", "Google's generateContent"),
        ("nope:generateContent", None, 400, "INVALID_ARGUMENT", "nope"),
        ("tiny:generateContent", "sk-wrong", 401, "UNAUTHENTICATED", "Incorrect API key"),
    ],
)
async def test_errors_at_googles_paths_are_in_googles_form(
    http: httpx.AsyncClient, path: str, key: str | None, status: int, named: str, words: str
) -> None:
    body = {"contents": [{"role": "user", "parts": [{"text": "x"}]}]}
    headers = {} if key is None else bearer(key)
    response = await http.post(f"/v1beta/models/{path}", json=body, headers=headers)
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["status"]) == (status, status, named)
    assert words in error["message"]


@OWN_ROUTE_ONLY
async def test_embeddings_with_a_virtual_key_name_the_model_and_the_operation(
    gateway: str, key: str
) -> None:
    async with http_client(gateway, headers=bearer(key), timeout=20) as http:
        refused = await http.post("/v1/embeddings", json={"model": "tiny", "input": "x"})
        check(refused)
        assert "The model 'tiny' does not support embeddings." in refused.text
        forbidden = await http.post("/v1/embeddings", json={"model": "down", "input": "x"})
        assert forbidden.status_code == 403, "the key's models are checked first"
