"""Which route requests for a model take, by what LiteLLM's real Router and globals configure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import litellm
import pytest
from litellm.proxy import proxy_server
from litellm.router import Router
from litellm.types.router import RoutingStrategy

from tests.support.litellm.model_routes import reason, route_of
from tests.support.litellm.router import Row, foreign, row, use
from toolgate_proxy.litellm_host.deployments import model_route as module
from toolgate_proxy.litellm_host.deployments.model_route import ModelRoutes, target_of
from toolgate_proxy.server.launcher import Route, make_config
from toolgate_proxy.settings import Settings


def test_generated_configuration_uses_our_own_route(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = make_config([Route("tiny", "org/T", "http://a"), Route("tiny", "org/T", "http://b")])
    router = Router(model_list=config["model_list"], **config["router_settings"])
    monkeypatch.setattr(proxy_server, "llm_router", router)
    monkeypatch.setattr(proxy_server, "general_settings", config["general_settings"])
    model_route = route_of()
    assert (model_route.model, model_route.reason, model_route.strategy) == (
        "tiny",
        None,
        "simple-shuffle",
    )
    assert not model_route.hooks
    assert not model_route.events
    assert {each.placement.api_base for each in model_route.targets} == {"http://a", "http://b"}


@pytest.mark.parametrize(
    ("params", "settings", "strategy"),
    [
        ({"max_parallel_requests": 3}, {}, "simple-shuffle"),
        ({}, {"default_max_parallel_requests": 3}, "simple-shuffle"),
        ({"weight": 2}, {"routing_strategy": "simple-shuffle"}, "simple-shuffle"),
        ({"weight": 2}, {"routing_strategy": "least-busy"}, "least-busy"),
        ({}, {"routing_strategy": RoutingStrategy.LEAST_BUSY}, "least-busy"),
    ],
)
def test_own_route_limits_requests_in_flight_and_supports_shuffle_and_least_busy(
    monkeypatch: pytest.MonkeyPatch, params: Row, settings: Row, strategy: str
) -> None:
    use(monkeypatch, row("a", **params), row("b"), **settings)
    assert (route_of().reason, route_of().strategy) == (None, strategy)


@pytest.mark.parametrize(
    "params",
    [
        {"temperature": 0.5, "max_tokens": 7, "seed": 1, "stop": ["x"], "top_k": 3},
        {"extra_body": {"top_k": 3}},
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"timeout": 5, "stream_timeout": 5, "max_retries": 2, "request_timeout": 9},
        {"drop_params": True, "cooldown_time": 3},
        {"num_retries": 2},
        {"input_cost_per_token": 0.1, "output_cost_per_token": 0.2},
        {"cache_read_input_token_cost": 0.1, "input_cost_per_second": 0.2},
        {"mock_response": None, "a_new_field_of_litellm": None, "tools": []},
    ],
    ids=lambda params: next(iter(params)),
)
def test_own_route_supports_deployment_parameters_costs_and_timeouts(
    monkeypatch: pytest.MonkeyPatch, params: Row
) -> None:
    assert reason(monkeypatch, row("a", **params)) is None
    assert route_of().strategy == "simple-shuffle"


def test_alias_has_the_route_of_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    aliases = {"nick": "tiny", "hidden": {"model": "tiny", "hidden": True}}
    use(monkeypatch, row("a"), model_group_alias=aliases)
    for name in ("nick", "hidden"):
        model_route = route_of(name)
        assert (model_route.model, model_route.reason, len(model_route.targets)) == (name, None, 1)
    monkeypatch.setattr(litellm, "model_alias_map", {"global": "tiny"})
    model_route = route_of("global")
    assert (model_route.model, model_route.reason, len(model_route.targets)) == ("tiny", None, 1)


def test_guardrails_of_all_deployments_are_those_of_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in LiteLLM, which runs them before it chooses a deployment."""
    use(monkeypatch, row("a", guardrails=["x", "y"]), row("b", guardrails="z"), row("c"))
    assert (route_of().reason, route_of().guardrails) == (None, ["x", "y", "z"])
    use(monkeypatch, row("a"))
    assert route_of().guardrails == []


def test_wildcard_models_use_our_own_route(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, row("a", group="team/*", model="toolgate/*"))
    assert (route_of("team/tiny").reason, route_of("team/tiny").model) == (None, "team/tiny")


@pytest.mark.parametrize(
    ("rows", "model"),
    [
        ([row("a")], "unheard of"),
        ([row("a")], ""),
        ([foreign("hosted")], "hosted"),
        ([row("a"), foreign("tiny")], "tiny"),
        ([row("a", model="openai/gpt-4o")], "tiny"),
    ],
)
def test_unknown_model_or_one_with_other_providers_has_no_route(
    monkeypatch: pytest.MonkeyPatch, rows: list[Row], model: str
) -> None:
    use(monkeypatch, *rows)
    assert ModelRoutes(Settings(route="auto")).find(model) is None


def test_no_model_has_a_route_without_a_router(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_server, "llm_router", None)
    assert ModelRoutes(Settings(route="auto")).find("tiny") is None


@pytest.mark.parametrize(
    ("rows", "settings"),
    [
        ([row("a", rpm=2), row("b")], {}),
        ([row("a"), row("b", tpm=2)], {}),
        ([row("a"), row("b", info={"rpm": 2})], {}),
        ([row("a", tags=["x"]), row("b")], {}),
        ([row("a", order=1), row("b", order=2)], {}),
        ([row("a"), row("b", info={"blocked": True})], {}),
        ([row("a")], {"enable_pre_call_checks": True}),
        ([row("a")], {"enable_tag_filtering": True}),
        ([row("a")], {"optional_pre_call_checks": ["enforce_model_rate_limits"]}),
        ([row("a")], {"disable_cooldowns": False}),
        ([row("a")], {"routing_strategy": "usage-based-routing-v2"}),
        ([row("a")], {"routing_strategy": "latency-based-routing"}),
        ([row("a")], {"routing_strategy": "cost-based-routing"}),
    ],
    ids=["rpm", "tpm", "rpm in model_info", "tags", "order", "blocked", "pre-call checks",
         "tag filtering", "optional checks", "cooldowns", "usage", "latency", "cost"],
)  # fmt: skip
def test_litellms_router_chooses_the_deployment_if_configured_to(
    monkeypatch: pytest.MonkeyPatch, rows: list[Row], settings: Row
) -> None:
    """Our own route still sends the request; the router needs its events for its counters."""
    use(monkeypatch, *rows, **settings)
    model_route = route_of()
    assert (model_route.reason, model_route.strategy, model_route.events) == (None, None, True)


@pytest.mark.parametrize(
    ("configured", "strategy"),
    [
        ("usage-based-routing-v2", None),
        ("latency-based-routing", None),
        ("least-busy", "least-busy"),
        ("simple-shuffle", "simple-shuffle"),
    ],
)
def test_models_of_a_routing_group_have_its_strategy(
    monkeypatch: pytest.MonkeyPatch, configured: str, strategy: str | None
) -> None:
    """For the name of the group itself, LiteLLM's router chooses the deployment."""
    use(
        monkeypatch,
        row("a"),
        row("b", group="other"),
        routing_strategy="least-busy",
        routing_groups=[{"group_name": "g", "models": ["tiny"], "routing_strategy": configured}],
        model_group_alias={"nick": "tiny"},
    )
    found = {model: route_of(model).strategy for model in ("tiny", "nick", "other", "g")}
    assert found == {"tiny": strategy, "nick": strategy, "other": "least-busy", "g": None}


def defaults(of: Row) -> Mapping[str, Any]:
    target = target_of(of)
    assert target is not None
    return target.defaults


def test_defaults_combine_deployment_parameters_and_extra_body() -> None:
    params = {
        "temperature": 0.125, "max_tokens": 7, "seed": None, "extra_body": {"top_k": 3, "n": None},
        "rpm": 3, "tags": ["x"], "input_cost_per_token": 0.1, "weight": 2, "stream_timeout": 5,
    }  # fmt: skip
    assert defaults(row("a", **params)) == {"temperature": 0.125, "max_tokens": 7, "top_k": 3}
    assert defaults(row("a")) == {}


def test_extra_body_overrides_parameters_in_the_defaults() -> None:
    """LiteLLM uses the same precedence."""
    assert defaults(row("a", top_k=1, extra_body={"top_k": 2})) == {"top_k": 2}


def test_defaults_of_the_router_have_precedence_over_those_of_a_deployment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """LiteLLM uses the same precedence."""
    configured = {"seed": 3, "temperature": 0.5, "timeout": 9, "metadata": {"a": "b"}}
    use(monkeypatch, row("a"), default_litellm_params=configured)
    assert defaults(row("a")) == {"seed": 3, "temperature": 0.5}
    assert defaults(row("a", seed=1, top_k=2)) == {"seed": 3, "temperature": 0.5, "top_k": 2}
    assert defaults(row("a", extra_body={"seed": 4}))["seed"] == 4


@pytest.mark.parametrize("field", ["tools", "messages", "stream", "model"])
def test_request_content_is_excluded_from_the_defaults(field: str) -> None:
    assert field not in defaults(row("a", **{field: "toolgate/x"}))


def test_model_route_is_cached_for_one_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """LiteLLM's configuration may change while it runs."""
    clock = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    use(monkeypatch, row("a"))
    known = ModelRoutes(Settings(route="auto"))
    first = known.find("tiny")
    assert first is not None
    use(monkeypatch, row("a"), row("b"), default_litellm_params={"mock_response": "x"})
    assert known.find("tiny") is first
    clock[0] += module.FRESH + 0.01
    second = known.find("tiny")
    assert second is not None
    reason = "`mock_response` in default_litellm_params"
    assert (len(second.targets), second.reason) == (2, reason)
    use(monkeypatch, foreign("tiny"))
    clock[0] += module.FRESH + 0.01
    assert known.find("tiny") is None


def test_model_route_cache_has_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(monkeypatch, row("a", group="team/*", model="toolgate/*"))
    monkeypatch.setattr(module, "MOST", 10)
    known = ModelRoutes(Settings(route="auto"))
    for number in range(35):
        assert known.find(f"team/{number}") is not None
        assert known.find(f"unheard of {number}") is None
    assert len(known._known) <= 10
