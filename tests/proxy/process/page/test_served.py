"""The page as a gateway serves it, and the data that its scripts ask for."""

from __future__ import annotations

import time
from datetime import datetime

import httpx
import pytest

from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.script import Script
from toolgate_proxy.page.files import POLICY
from toolgate_proxy.page.operations import OPERATIONS


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("/", "text/html"),
        ("/docs", "text/html"),
        ("/toolgate/openapi.json", "application/json"),
        ("/toolgate/page/app.js", "text/javascript"),
    ],
)
async def test_the_page_needs_no_key(gateway: str, path: str, media_type: str) -> None:
    async with http_client(gateway) as client:
        response = await client.get(path)
        head = await client.head(path)
    assert response.status_code == head.status_code == 200
    assert response.headers["content-type"].startswith(media_type)
    assert response.headers["content-security-policy"] == POLICY
    assert response.headers["x-content-type-options"] == "nosniff"
    assert head.content == b""
    assert int(head.headers["content-length"]) == len(response.content)


@pytest.mark.parametrize("route", ["own"], indirect=True)
async def test_litellms_documentation_has_moved_and_needs_a_key(
    gateway: str, http: httpx.AsyncClient
) -> None:
    moved = await http.get("/litellm/docs")
    assert moved.is_success
    assert "swagger" in moved.text.lower()
    document = (await http.get("/openapi.json")).json()
    assert len(document["paths"]) > 100
    async with http_client(gateway) as stranger:
        for path in ("/litellm/docs", "/openapi.json", "/toolgate/status", "/toolgate/keys"):
            assert (await stranger.get(path)).status_code == 401, path


async def test_each_operation_of_the_reference_is_served(http: httpx.AsyncClient) -> None:
    for operation in OPERATIONS:
        path = operation.path.replace("{id}", "none-such")
        content = b"{}" if operation.method == "post" else None
        response = await http.request(operation.method, path, content=content)
        # An unknown id and an empty body are errors of our own, in JSON.
        assert response.status_code < 500
        if response.is_client_error:
            assert response.json()["error"]["code"] != "route_not_found", path


async def test_only_the_master_key_reads_keys_and_status(gateway: str, key: str) -> None:
    async with http_client(gateway, headers=bearer(key)) as client:
        for path in ("/toolgate/keys", "/toolgate/status"):
            assert (await client.get(path)).status_code == 403


async def test_keys_are_listed_with_their_use_and_without_secrets(
    gateway: str, key: str, http: httpx.AsyncClient
) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
    async with http_client(gateway, headers=bearer(key)) as client:
        (await client.post("/v1/chat/completions", json=body)).raise_for_status()
    response = await http.get("/toolgate/keys")
    listed = response.json()
    assert listed["usage"] is True
    assert key not in response.text
    [mine] = [each for each in listed["keys"] if any(_hints(hint, key) for hint in each["hints"])]
    assert mine["status"] == "active"
    assert mine["models"] == ["tiny"]
    assert mine["limits"] == {"rpm": 1000}
    assert mine["today"]["tokens_today"] > 0
    assert datetime.fromisoformat(mine["last_used"]).timestamp() == pytest.approx(
        time.time(), abs=60
    )


async def test_the_status_has_the_requests_of_the_last_minutes(
    http: httpx.AsyncClient, backend: FakeBackend, route: str
) -> None:
    backend.scripts["hi"] = Script(("Hello there",))
    before = _totals((await http.get("/toolgate/status")).json())
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
    (await http.post("/v1/chat/completions", json=body | {"stream": True})).raise_for_status()
    assert (await http.post("/v1/chat/completions", json=body | {"n": -1})).status_code == 400
    status = (await http.get("/toolgate/status")).json()
    after = _totals(status)
    assert after["requests"] - before["requests"] == 2
    assert after["refused"] - before["refused"] == 1
    assert after["failed"] == before["failed"]
    times = [each["first_token_ms"] for each in status["recent"] if each["first_token_ms"]]
    assert times or route == "litellm"  # LiteLLM's handler does not report the first token
    assert all(0 < each["p50"] <= each["p90"] <= each["p99"] for each in times)
    assert status["database"] is False


def _totals(status: dict[str, list[dict[str, int]]]) -> dict[str, int]:
    names = ("requests", "refused", "failed")
    return {name: sum(minute[name] for minute in status["recent"]) for name in names}


def _hints(hint: str, key: str) -> bool:
    beginning, _, end = hint.partition("…")
    return key.startswith(beginning) and key.endswith(end)
