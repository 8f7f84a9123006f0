"""LiteLLM's side of authentication: master key, callers, and the models that a key may use."""

from __future__ import annotations

import inspect
import json
from typing import Annotated, Any

import httpx
import litellm
import pytest
from fastapi import Depends, FastAPI
from litellm.proxy import proxy_server
from litellm.proxy._types import LitellmUserRoles, ProxyException, UserAPIKeyAuth
from litellm.proxy.auth.user_api_key_auth import user_api_key_auth
from litellm.proxy.common_utils.http_parsing_utils import _read_request_body
from starlette.requests import Request

from tests.support.litellm.router import row, use
from tests.support.servers.virtual_keys import key_of
from toolgate_core.errors import PermissionDenied
from toolgate_proxy import auth
from toolgate_proxy.keys.header import KEY_HEADERS
from toolgate_proxy.keys.key import new_key
from toolgate_proxy.litellm_host import auth as host
from toolgate_proxy.litellm_host.callbacks.limit_hook import hook

Header = tuple[bytes, bytes]
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}


def request_with(*headers: Header, path: str = "/v1/models", method: str = "GET") -> Request:
    scope = {
        "type": "http", "method": method, "path": path, "root_path": "", "query_string": b"",
        "headers": list(headers), "server": ("x", 80), "scheme": "http", "client": ("10.0.0.1", 1),
    }  # fmt: skip
    return Request(scope)


def chat_with(*headers: Header) -> Request:
    return request_with(*headers, path="/v1/chat/completions", method="POST")


def test_only_the_exact_master_key_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_server, "master_key", "sk-master")
    assert host.is_master_key("sk-master")
    for wrong in ("", "sk-maste", "sk-master ", "SK-MASTER", "sk-mastér", "\ud800"):
        assert not host.is_master_key(wrong)
    monkeypatch.setattr(proxy_server, "master_key", None)
    assert not host.is_master_key("")
    assert not host.is_master_key("None")


async def test_caller_with_the_master_key_equals_litellms_administrator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxy_server, "master_key", "sk-master")
    monkeypatch.setattr(proxy_server, "user_custom_auth", None)
    made = host.administrator()
    assert made.user_role == LitellmUserRoles.PROXY_ADMIN
    assert made.api_key == "litellm_proxy_master_key"
    theirs = await host.litellm_caller(chat_with((b"authorization", b"Bearer sk-master")), CHAT)
    for field in ("user_role", "user_id", "api_key"):
        assert getattr(theirs, field) == getattr(made, field)
    assert host.caller(None, "/x").request_route == "/x"
    assert host.caller(None).user_role == LitellmUserRoles.PROXY_ADMIN


def test_caller_has_the_alias_models_team_and_tags_of_its_key() -> None:
    key = key_of(new_key(), alias="web", models=("tiny", "big"), team="t", tags=("a",))
    made = host.caller(key, "/v1/chat/completions")
    assert (made.api_key, made.key_alias, made.models) == (key.id, "web", ["tiny", "big"])
    assert made.user_role == LitellmUserRoles.INTERNAL_USER
    assert made.metadata == {"team": "t", "tags": ["a"]}
    assert made.request_route == "/v1/chat/completions"


def test_all_of_litellms_key_headers_are_listed() -> None:
    """With another header, a request could have two keys."""
    parameters = inspect.signature(user_api_key_auth).parameters
    found = {}
    for name, parameter in parameters.items():
        scheme = getattr(parameter.default, "dependency", parameter.default)  # fastapi.Security
        if hasattr(scheme, "model"):
            found[name] = scheme.model.name.lower()
    assert found == host.KEY_HEADERS
    assert {header.encode() for header in found.values()} == set(KEY_HEADERS)


@pytest.mark.parametrize("header", [None, *sorted(set(host.KEY_HEADERS.values()))])
async def test_other_custom_auth_gets_the_key_and_body_that_litellm_passes(
    monkeypatch: pytest.MonkeyPatch, header: str | None
) -> None:
    seen: list[tuple[str, Any]] = []

    async def custom_auth(request: Request, api_key: str) -> UserAPIKeyAuth:
        seen.append((api_key, await _read_request_body(request)))
        return UserAPIKeyAuth(api_key=api_key, user_id="theirs")

    app = FastAPI()

    @app.post("/v1/chat/completions")
    async def handler(caller: Annotated[UserAPIKeyAuth, Depends(user_api_key_auth)]) -> str | None:
        return caller.user_id

    monkeypatch.setattr(proxy_server, "user_custom_auth", custom_auth)
    monkeypatch.setattr(proxy_server, "master_key", "sk-master")
    sent = "Bearer sk-1" if header == "authorization" else "sk-1"
    headers = {} if header is None else {header: sent}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as http:
        assert (
            await http.post("/v1/chat/completions", json=CHAT, headers=headers)
        ).json() == "theirs"
    ours = chat_with(*((name.encode(), value.encode()) for name, value in headers.items()))
    assert (await host.litellm_caller(ours, CHAT)).user_id == "theirs"
    by_litellm, by_us = seen
    assert by_us == by_litellm
    if header is not None:
        assert "sk-1" in by_us[0]


async def test_our_custom_auth_reads_the_key_from_the_headers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """LiteLLM parses some of them differently; all of our checks must use the same key."""
    monkeypatch.setattr(proxy_server, "master_key", "sk-master")
    for header in ((b"authorization", b"BEARER   sk-master"), (b"x-api-key", b"bearer sk-master")):
        caller = await host.authenticate(request_with(header), "sk-other")
        assert caller.user_role == LitellmUserRoles.PROXY_ADMIN
    with pytest.raises(ProxyException):
        await host.authenticate(request_with((b"authorization", b"Bearer sk-wrong")), "sk-master")


async def test_key_read_by_litellm_is_used_without_a_key_header(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxy_server, "master_key", "sk-master")
    caller = await host.authenticate(request_with(), "sk-master")
    assert caller.user_role == LitellmUserRoles.PROXY_ADMIN


def test_route_is_read_from_the_request_line_and_not_the_host() -> None:
    assert host.route_of(request_with((b"host", b"x/key/list?y="))) == "/v1/models"


def test_our_custom_auth_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_server, "general_settings", {})
    monkeypatch.setattr(proxy_server, "user_custom_auth", auth.authenticate)
    assert host.is_ours()
    monkeypatch.setattr(proxy_server, "general_settings", {"litellm_key_header_name": "x-key"})
    assert not host.is_ours()
    monkeypatch.setattr(proxy_server, "general_settings", {})
    monkeypatch.setattr(proxy_server, "user_custom_auth", None)
    assert not host.is_ours()


def test_the_limit_hook_is_registered_once() -> None:
    """Each request that LiteLLM authenticates registers it."""
    for _ in range(2):
        host.add_callback(hook)
    assert litellm.callbacks == [hook]


def test_both_checks_of_models_must_be_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for general in ({}, {"custom_auth_run_common_checks": True}):
        for post in (False, True):
            monkeypatch.setattr(proxy_server, "general_settings", general)
            monkeypatch.setattr(litellm, "enable_post_custom_auth_checks", post, raising=False)
            assert host.checks_models() == (bool(general) and post)


@pytest.mark.parametrize(
    ("allowed", "named", "permitted"),
    [
        ((), "anything", True),
        (("small",), "small", True),
        (("small",), "large", False),
        (("small",), "SMALL", False),
        (("sm*",), "small", True),
        (("la*",), "small", False),
        (("team/*",), "team/large", True),
        (("team/*",), "large", False),
        (("a-group",), "grouped", True),
        (("a-group",), "small", False),
        (("nick",), "nick", True),
        (("nick",), "small", False),
        (("small", "large"), "large", True),
        (("small",), "", False),
    ],
)
async def test_key_allows_models_by_name_wildcard_or_access_group(
    monkeypatch: pytest.MonkeyPatch, allowed: tuple[str, ...], named: str, permitted: bool
) -> None:
    use(
        monkeypatch,
        *(row(name, group=name) for name in ("small", "large", "team/large")),
        row("grouped", group="grouped", info={"access_groups": ["a-group"]}),
        model_group_alias={"nick": "small"},
    )
    key = key_of(new_key(), models=allowed)
    if permitted:
        await host.check_model(host.caller(key), named)
        return
    with pytest.raises(PermissionDenied) as refusal:
        await host.check_model(host.caller(key), named)
    assert refusal.value.status == 403
    assert all(json.dumps(name)[1:-1] in refusal.value.message for name in allowed)


async def test_key_for_a_model_allows_its_alias(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As LiteLLM's own check does: the alias is another name of that model."""
    use(monkeypatch, row("a", group="small"), model_group_alias={"nick": "small"})
    await host.check_model(host.caller(key_of(new_key(), models=("small",))), "nick")
