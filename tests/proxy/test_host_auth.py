"""One test for each touch of LiteLLM that keys and limits lean on, failing when the host moves."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import litellm
import pytest
from litellm.proxy import proxy_server
from litellm.proxy._types import LitellmUserRoles
from litellm.proxy.auth import user_api_key_auth
from litellm.proxy.utils import ProxyLogging
from starlette.requests import Request

from toolgate_core.errors import InvalidKey, RateLimited
from toolgate_proxy import body_guard, gate
from toolgate_proxy.litellm_host import auth as host
from toolgate_proxy.litellm_host.limit_hook import LimitHook, hook


def test_the_master_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_server, "master_key", "sk-master")
    assert host.is_master_key("sk-master")
    for wrong in ("", "sk-maste", "sk-master ", "SK-MASTER", "sk-mastér", "\ud800"):
        assert not host.is_master_key(wrong)
    monkeypatch.setattr(proxy_server, "master_key", None)
    assert not host.is_master_key("")
    assert not host.is_master_key("None")


def test_the_administrator_is_litellm_s() -> None:
    made = host.admin()
    assert made.user_role == LitellmUserRoles.PROXY_ADMIN
    assert made.api_key == "litellm_proxy_master_key"
    source = inspect.getsource(user_api_key_auth.user_api_key_auth_builder)
    assert "api_key=LITELLM_PROXY_MASTER_KEY_ALIAS" in source


def test_where_litellm_looks_for_a_key() -> None:
    """Were there another header, two keys could come in one request."""
    parameters = inspect.signature(user_api_key_auth.user_api_key_auth).parameters.values()
    names = {
        p.default.model.name.lower().encode() for p in parameters if hasattr(p.default, "model")
    }
    if not names:  # fastapi.Security wraps the scheme
        names = {
            p.default.dependency.model.name.lower().encode()
            for p in parameters
            if getattr(p.default, "dependency", None) is not None
        }
    assert names == set(gate.KEY_HEADERS)


def test_the_route_is_the_request_line_s() -> None:
    scope = {
        "type": "http", "method": "GET", "path": "/v1/models", "root_path": "", "query_string": b"",
        "headers": [(b"host", b"x/key/list?y=")], "server": ("x", 80), "scheme": "http",
    }  # fmt: skip
    assert host.route_of(Request(scope)) == "/v1/models"


def test_our_error_is_what_is_answered() -> None:
    made = host.proxy_exception(RateLimited("Wait.", retry_after=7))
    assert made.to_dict()["code"] == "rate_limit_exceeded"
    assert (str(made.code), made.headers["retry-after"]) == ("429", "7")


@pytest.mark.parametrize(
    "field",
    ["api_base", "base_url", "api_key", "model_list", "mock_response", "mock_anything", "fallbacks",
     "custom_llm_provider", "num_retries", "user_config", "litellm_params", "no-log",
     "deployment_id", "router_settings_override", "additional_drop_params", "_target_order"],
)  # fmt: skip
def test_orders_are_known(field: str) -> None:
    known = host.is_control(field) or field in body_guard.NESTED
    assert known


@pytest.mark.parametrize(
    "field",
    ["model", "messages", "tools", "metadata", "user", "stream", "timeout", "input",
     "previous_response_id",
     "instructions", "max_output_tokens", "reasoning", "store", "priority", "chat_template_kwargs",
     "cache_salt", "system", "thinking", "service_tier", "prompt", "encoding_format"],
)  # fmt: skip
def test_what_apis_have_is_no_order(field: str) -> None:
    assert not host.is_control(field)


def test_a_callback_is_asked_before_every_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litellm, "callbacks", [])
    host.add_callback(hook)
    host.add_callback(hook)
    assert litellm.callbacks == [hook]
    assert ProxyLogging.callback_capabilities().has_pre_call_override
    assert "async_pre_call_hook" in vars(LimitHook)


def test_the_checks_of_models_must_be_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for general in ({}, {"custom_auth_run_common_checks": True}):
        for post in (False, True):
            monkeypatch.setattr(proxy_server, "general_settings", general)
            monkeypatch.setattr(litellm, "enable_post_custom_auth_checks", post, raising=False)
            assert host.checks_models() == (bool(general) and post)


def test_two_keys_in_a_request_are_none() -> None:
    same = [(b"authorization", b"Bearer k"), (b"x-api-key", b"k"), (b"accept", b"x")]
    assert gate.the_key(same) == "k"
    assert gate.the_key([]) is None
    with pytest.raises(InvalidKey):
        gate.the_key([*same, (b"api-key", b"other")])


async def test_outside_of_our_gateway_the_hook_does_nothing() -> None:
    data: dict[str, Any] = {"model": "m"}
    await asyncio.create_task(hook.async_pre_call_hook(None, None, data, "acompletion"))
    assert data == {"model": "m"}
