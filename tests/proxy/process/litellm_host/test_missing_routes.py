"""Requests for routes that the gateway does not have."""

from __future__ import annotations

import httpx
import pytest

from tests.support.servers.http_client import http_client

ANTHROPIC = {"anthropic-version": "2023-06-01"}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/key/generate"),
        ("GET", "/key/list"),
        ("POST", "/team/new"),
        ("POST", "/user/new"),
        ("GET", "/global/spend"),
        ("POST", "/budget/new"),
    ],
)
async def test_routes_of_a_database_name_toolgate_keys(
    http: httpx.AsyncClient, method: str, path: str
) -> None:
    response = await http.request(method, path, json={} if method == "POST" else None)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (404, "route_not_found")
    assert "`toolgate keys`" in error["message"]
    assert "DATABASE_URL" not in response.text


@pytest.mark.parametrize(
    ("path", "extra"),
    [
        ("/v1/v1/messages", "'/v1'"),
        ("/v1/messages/v1/messages", "'/v1/messages'"),
        ("/v1/v1/chat/completions", "'/v1'"),
        ("/v1/chat/completions/chat/completions", "'/chat/completions'"),
    ],
)
async def test_a_base_url_with_too_much_is_named(
    gateway: str, http: httpx.AsyncClient, key: str, path: str, extra: str
) -> None:
    async with http_client(gateway, headers={"authorization": f"Bearer {key}"}) as client:
        for each in (client, http):
            response = await each.post(path, json={}, headers=ANTHROPIC)
            body = response.json()
            assert (response.status_code, body["error"]["code"]) == (404, "route_not_found")
            assert f"Remove {extra} from the end of the base URL" in body["error"]["message"]
            assert (body.get("type") == "error") == path.endswith("messages")


async def test_unknown_routes_have_the_form_of_other_errors(
    http: httpx.AsyncClient, gateway: str, key: str
) -> None:
    for path, hint in (("/v1/chat/completion", "Did you mean /v1/chat/completions?"), ("/x", "")):
        response = await http.post(path, json={})
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (404, "route_not_found")
        assert hint in error["message"]
        assert {"message", "type", "param", "code"} <= {*error}
    response = await http.delete("/v1/messages")
    assert (response.status_code, response.json()["type"]) == (405, "error")
    assert response.json()["error"]["code"] == "method_not_allowed"
    assert response.headers["allow"] == "POST"
    async with http_client(gateway, headers={"authorization": f"Bearer {key}"}) as client:
        denied = await client.post("/v1/chat/completion", json={})
        assert denied.status_code == 403
        assert "Did you mean /v1/chat/completions?" in denied.json()["error"]["message"]
    async with http_client(gateway) as stranger:
        assert (await stranger.post("/v1/v1/messages", json={})).status_code == 401
