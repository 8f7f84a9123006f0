"""What makes requests for a model take LiteLLM's route, with the reason that is reported."""

from __future__ import annotations

from typing import Any

import litellm
import pytest
from litellm.caching.caching import Cache
from litellm.proxy import proxy_server
from litellm.types.caching import LiteLLMCacheType

from tests.support.litellm.model_routes import reason, route_of
from tests.support.litellm.router import Row, row, use
from toolgate_proxy.litellm_host.deployments import model_route as module
from toolgate_proxy.litellm_host.deployments.model_route import ModelRoutes
from toolgate_proxy.litellm_host.deployments.router import rows_of
from toolgate_proxy.settings import Settings

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def test_route_setting_sends_all_requests_to_litellm(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, row("a"))
    model_route = ModelRoutes(Settings(route="litellm")).find("tiny")
    assert model_route is not None
    assert model_route.reason == "TOOLGATE_ROUTE=litellm"
    assert ModelRoutes(Settings(route="litellm")).find("unheard of") is None


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"tools": [TOOL]}, "tools"),
        ({"mock_response": "Hello"}, "mock_response"),
        ({"a_new_field_of_litellm": 1}, "a_new_field_of_litellm"),
        ({"fallbacks": ["other"]}, "fallbacks"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages"),
        ({"stream": True}, "stream"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_unsupported_deployment_field_sends_requests_to_litellm(
    monkeypatch: pytest.MonkeyPatch, params: Row, field: str
) -> None:
    found = reason(monkeypatch, row("a"), row("b", **params))
    assert found in {f"`{name}` in litellm_params" for name in params}
    assert f"`{field}` in litellm_params" in set(module._reasons("tiny", rows_of("tiny")))
    assert route_of().reason == found


@pytest.mark.parametrize("name", ["fallbacks", "context_window_fallbacks"])
@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"temperature": 0.5, "max_tokens": 7, "tools": [TOOL]}, None),
        ({"api_base": "http://x"}, "api_base"),
        ({"stream": True}, "stream"),
    ],
    ids=["parameters", "address", "stream"],
)
def test_fallbacks_may_replace_parameters_only(
    monkeypatch: pytest.MonkeyPatch, name: str, parameters: Row, expected: str | None
) -> None:
    rows = (row("a"), row("b", group="other"))
    for models in ("tiny", "*"):
        configured = [{models: [{"model": "other", **parameters}]}]
        found = reason(monkeypatch, *rows, **{name: configured})
        assert found == (expected and f"`{expected}` in `{name}`")
    for configured in ([{"tiny": ["other"]}], [{"other": [{"model": "tiny", **parameters}]}], []):
        assert reason(monkeypatch, *rows, **{name: configured}) is None


def test_fallbacks_are_served_by_our_own_route(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (row("a"), row("b", group="other"))
    for settings in (
        {"default_fallbacks": ["other"]},
        {"fallbacks": [{"tiny": ["other"]}]},
        {"context_window_fallbacks": [{"tiny": ["other"]}]},
        {"content_policy_fallbacks": [{"tiny": ["other"]}]},
    ):
        assert reason(monkeypatch, *rows, **settings) is None


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"timeout": 3, "metadata": {"a": 1}}, None),
        ({"mock_response": "x"}, "mock_response"),
        ({"temperature": 0.5}, None),
        ({"tools": [TOOL]}, "tools"),
        ({"guardrails": ["x"]}, "guardrails"),
    ],
)
def test_router_default_parameters_send_requests_to_litellm(
    monkeypatch: pytest.MonkeyPatch, params: Row, field: str | None
) -> None:
    expected = None if field is None else f"`{field}` in default_litellm_params"
    assert reason(monkeypatch, default_litellm_params=params) == expected


@pytest.mark.parametrize(
    ("types", "concerned"),
    [(["acompletion", "completion"], True), (None, True), (["aembedding"], False), ([], False)],
)
def test_semantic_cache_for_chat_completions_sends_requests_to_litellm(
    monkeypatch: pytest.MonkeyPatch, types: Any, concerned: bool
) -> None:
    """It has answers to similar requests, whose schemas may differ."""
    cache = Cache(type="local", supported_call_types=types)
    monkeypatch.setattr(litellm, "cache", cache)
    assert reason(monkeypatch) is None
    cache.type = LiteLLMCacheType.REDIS_SEMANTIC
    expected = "LiteLLM's semantic response cache" if concerned else None
    assert reason(monkeypatch) == expected


def test_models_of_a_gateway_with_a_database_are_served_by_our_own_route(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxy_server, "prisma_client", object())
    assert reason(monkeypatch) is None
    assert route_of().events


@pytest.mark.parametrize("custom", [False, True], ids=["litellm", "custom"])
def test_budget_of_all_keys_needs_litellms_authentication(
    monkeypatch: pytest.MonkeyPatch, custom: bool
) -> None:
    monkeypatch.setattr(proxy_server, "user_custom_auth", object() if custom else None)
    monkeypatch.setattr(litellm, "max_budget", 1.0)
    assert reason(monkeypatch) == ("`max_budget` in litellm_settings" if custom else None)


@pytest.mark.parametrize("name", ["output_cost_per_token", "cache_read_input_token_cost"])
def test_prices_are_supported(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert reason(monkeypatch, row("a", **{name: 0.5})) is None


@pytest.mark.parametrize("name", ["pre_call_rules", "post_call_rules"])
def test_litellm_rules_send_requests_to_litellm(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(litellm, name, [lambda text: True])
    assert reason(monkeypatch) == "LiteLLM's rules (`pre_call_rules`, `post_call_rules`)"


def test_model_of_all_requests_sends_them_to_litellm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_server, "general_settings", {"completion_model": "x"})
    assert reason(monkeypatch) == "`completion_model` in general_settings"


@pytest.mark.parametrize("name", ["allowed_ips", "pass_through_endpoints"])
def test_settings_of_other_paths_and_of_addresses_change_no_route(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(proxy_server, "general_settings", {name: ["x"]})
    assert reason(monkeypatch) is None


def test_team_deployment_changes_no_route(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reason(monkeypatch, row("a", info={"team_id": "t"})) is None
