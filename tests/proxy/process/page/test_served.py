"""The page as a gateway serves it, and the data that its scripts ask for."""

from __future__ import annotations

import time
from datetime import datetime

import httpx
import pytest

from tests.support.servers.fake_backend import KEY, FakeBackend
from tests.support.servers.gateway_process import KEY_SECRET, MASTER_KEY
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.script import Script
from toolgate_proxy.page import POLICY


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("/", "text/html"),
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
async def test_litellms_documentation_needs_a_key_and_has_no_secrets(
    gateway: str, http: httpx.AsyncClient
) -> None:
    shown = await http.get("/docs")
    assert shown.is_success
    assert "swagger" in shown.text.lower()
    document = await http.get("/openapi.json")
    paths = document.json()["paths"]
    assert {"/v1/chat/completions", "/v1/responses", "/toolgate/status"} <= paths.keys()
    for secret in (MASTER_KEY, KEY, KEY_SECRET):
        assert secret not in shown.text + document.text
    async with http_client(gateway) as stranger:
        for path in ("/docs", "/openapi.json", "/toolgate/status", "/toolgate/keys"):
            assert (await stranger.get(path)).status_code == 401, path


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
