"""LiteLLM's authentication and another custom_auth on the gateway's own route."""

from __future__ import annotations

import json
from typing import Any

import litellm
import pytest
from litellm.proxy import proxy_server
from litellm.proxy._types import UserAPIKeyAuth
from starlette.requests import Request

from tests.support.litellm.own_route import CHAT, Gateway, chat, ours
from tests.support.litellm.router import use


async def test_other_custom_auth_may_read_the_request(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    async def custom_auth(request: Request, api_key: str) -> UserAPIKeyAuth:
        seen.append((api_key, await request.json(), await request.body(), request.url.path))
        return UserAPIKeyAuth(api_key=api_key)

    monkeypatch.setattr(proxy_server, "user_custom_auth", custom_auth)
    body = chat()
    response = await gateway.ask(body, key="theirs")
    assert (response.status, response.text) == (200, "Hello there")
    assert seen == [("theirs", body, json.dumps(body).encode(), CHAT)]
    assert response.context.key is None


async def test_other_custom_auth_gets_the_model_of_the_path(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LiteLLM checks the caller's models itself, where it is configured to."""

    async def custom_auth(request: Request, api_key: str) -> UserAPIKeyAuth:
        return UserAPIKeyAuth(api_key=api_key, models=["allowed"])

    use(monkeypatch, ours(gateway.backend), ours(gateway.backend, "allowed"))
    monkeypatch.setattr(proxy_server, "user_custom_auth", custom_auth)
    checks = {"custom_auth_run_common_checks": True}
    monkeypatch.setattr(proxy_server, "general_settings", checks)
    monkeypatch.setattr(litellm, "enable_post_custom_auth_checks", True, raising=False)
    allowed = await gateway.ask(chat(model="allowed"), key="theirs")
    assert allowed.status == 200
    for path, model in ((CHAT, "tiny"), ("/engines/tiny/chat/completions", "allowed")):
        refused = await gateway.ask(chat(model=model), path=path, key="theirs")
        assert refused.status in (401, 403), path
    assert len(gateway.backend.requests) == 1


@pytest.mark.parametrize("path", [CHAT, "/v1/responses", "/v1/models", "/toolgate/status"])
async def test_addresses_that_litellm_does_not_allow_are_refused(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    forwarded = [(b"x-forwarded-for", b"10.0.0.9")]
    for settings, allowed in (
        ({"allowed_ips": ["10.0.0.1"]}, True),
        ({"allowed_ips": ["10.0.0.9"]}, False),
        ({"allowed_ips": []}, False),
        ({"allowed_ips": ["10.0.0.9"], "use_x_forwarded_for": True}, True),
    ):
        monkeypatch.setattr(proxy_server, "general_settings", settings)
        method = "POST" if path in (CHAT, "/v1/responses") else "GET"
        body = chat() if path == CHAT else {"model": "tiny", "input": "hi"}
        response = await gateway.ask(body, path=path, method=method, headers=[*forwarded])
        assert (response.status == 403) != allowed, (settings, response.bodies)
    monkeypatch.setattr(proxy_server, "general_settings", {"allowed_ips": []})
    probe = await gateway.ask(b"", path="/toolgate/ready", method="GET", key=None)
    assert probe.status != 403


@pytest.mark.parametrize("field", ["team_id", "api_key", "user_id"])
async def test_stored_responses_belong_to_the_caller_of_another_custom_auth(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    """The key may be anywhere in the request: here it is in a cookie."""

    async def custom_auth(request: Request, api_key: str) -> UserAPIKeyAuth:
        user = request.cookies["user"]
        if user == "nobody":
            raise ValueError("nobody")
        assert await request.body() is not None
        return UserAPIKeyAuth(**{field: user})

    monkeypatch.setattr(proxy_server, "user_custom_auth", custom_auth)

    async def send(method: str, path: str, user: str, body: Any = b"") -> Any:
        headers = [(b"cookie", f"user={user}".encode())]
        return await gateway.ask(body, path=path, method=method, headers=headers, key=None)

    made = await send("POST", "/v1/responses", "one", {"model": "tiny", "input": "hi"})
    path = f"/v1/responses/{made.json['id']}"
    assert (await send("GET", path, "one")).json == made.json
    assert (await send("GET", path, "other")).status == 404
    assert (await send("GET", path, "nobody")).status == 401
    assert (await send("DELETE", path, "other")).status == 404
    assert (await send("DELETE", path, "one")).status == 200


async def test_litellms_authentication_accepts_its_master_key(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy_server, "user_custom_auth", None)
    assert (await gateway.ask(chat())).text == "Hello there"
    refused = await gateway.ask(chat(), key="sk-wrong")
    assert refused.status >= 400
    assert refused.json["error"]["message"]
    assert len(gateway.backend.requests) == 1
