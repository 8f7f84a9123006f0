"""Which route requests for a model take and why, and what its deployments are, by what LiteLLM's
real Router and globals configure."""

from pathlib import Path

import litellm
import pytest
import yaml
from litellm.proxy import proxy_server
from litellm.router import Router
from litellm.types.router import RoutingStrategy

from tests.proxy.kit import beside
from tests.support.litellm.router import foreign, row, use
from toolgate_proxy.litellm_host.routing import model_route as module
from toolgate_proxy.litellm_host.routing import router
from toolgate_proxy.litellm_host.routing.model_route import ModelRoutes, litellm_reasons, target_of
from toolgate_proxy.litellm_host.routing.router import rows_of
from toolgate_proxy.routing.deployments import Placement
from toolgate_proxy.server.launcher import Route, make_config
from toolgate_proxy.settings import Settings

CASES = beside(__file__)

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
A, B, OTHER = row("a"), row("b"), row("b", group="other")
SHUFFLE, BUSY = "simple-shuffle", "least-busy"


def route_of(model="tiny"):
    return ModelRoutes(Settings(route="auto")).find(model)


def reason(monkeypatch, *rows, **settings):
    use(monkeypatch, *(rows or (A,)), **settings)
    return next(litellm_reasons("tiny", rows_of("tiny")), None)


def test_generated_configuration_uses_our_own_route(monkeypatch):
    config = make_config([Route("tiny", "org/T", "http://a"), Route("tiny", "org/T", "http://b")])
    made = Router(model_list=config["model_list"], **config["router_settings"])
    monkeypatch.setattr(proxy_server, "llm_router", made)
    monkeypatch.setattr(proxy_server, "general_settings", config["general_settings"])
    route = route_of()
    assert (route.model, route.reason, route.strategy) == ("tiny", None, SHUFFLE)
    assert (route.hooks, route.events) == (False, False)
    assert {each.placement.api_base for each in route.targets} == {"http://a", "http://b"}


SERVED = yaml.safe_load((Path(__file__).parent / "served_models.yaml").read_text())
BY_NAME = {"a": {}, "settings": {"routing_strategy": RoutingStrategy.LEAST_BUSY}, "strategy": BUSY}


@pytest.mark.parametrize("case", [*SERVED, BY_NAME], ids=lambda case: str(case)[:60])
def test_models_of_ours_are_served_by_our_own_route(monkeypatch, case):
    strategy, settings = case["strategy"], case.get("settings", {})
    rows = [row(name, **case[name]) for name in "ab" if name in case]
    use(monkeypatch, *rows, row("c", group="other"), **settings)
    route = route_of()
    assert (route.reason, route.strategy, route.events) == (None, strategy, strategy is None)


@pytest.mark.parametrize(
    ("configured", "strategy"),
    [("usage-based-routing-v2", None), ("latency-based-routing", None), (BUSY, BUSY),
     (SHUFFLE, SHUFFLE)],
)  # fmt: skip
def test_models_of_a_routing_group_have_its_strategy(monkeypatch, configured, strategy):
    """For the name of the group itself, LiteLLM's router chooses the deployment."""
    groups = [{"group_name": "g", "models": ["tiny"], "routing_strategy": configured}]
    settings = {"routing_groups": groups, "model_group_alias": {"nick": "tiny"}}
    use(monkeypatch, A, OTHER, routing_strategy=BUSY, **settings)
    found = {model: route_of(model).strategy for model in ("tiny", "nick", "other", "g")}
    assert found == {"tiny": strategy, "nick": strategy, "other": BUSY, "g": None}


def test_aliases_and_wildcards_have_the_route_of_their_model(monkeypatch):
    aliases = {"nick": "tiny", "hidden": {"model": "tiny", "hidden": True}}
    wildcard = row("w", group="team/*", model="toolgate/*")
    use(monkeypatch, A, wildcard, model_group_alias=aliases)
    monkeypatch.setattr(litellm, "model_alias_map", {"global": "tiny"})
    for name in ("nick", "hidden", "global", "team/tiny"):
        route, model = route_of(name), "tiny" if name == "global" else name
        assert (route.model, route.reason, len(route.targets)) == (model, None, 1)


def test_guardrails_of_all_deployments_are_those_of_the_model(monkeypatch):
    """As in LiteLLM, which runs them before it chooses a deployment."""
    use(monkeypatch, row("a", guardrails=["x", "y"]), row("b", guardrails="z"), row("c"))
    assert (route_of().reason, route_of().guardrails) == (None, ["x", "y", "z"])
    use(monkeypatch, A)
    assert route_of().guardrails == []


@pytest.mark.parametrize(
    ("rows", "model"),
    [
        ([A], "unheard of"),
        ([A], ""),
        ([foreign("hosted")], "hosted"),
        ([A, foreign("tiny")], "tiny"),
        ([row("a", model="openai/gpt-4o")], "tiny"),
        (None, "tiny"),
    ],
)
def test_no_route_without_a_router_or_for_models_that_are_not_all_ours(monkeypatch, rows, model):
    if rows is None:
        monkeypatch.setattr(proxy_server, "llm_router", None)
    else:
        use(monkeypatch, *rows)
    assert route_of(model) is None


# --- reasons for LiteLLM's route ------------------------------------------------------------------


def test_route_setting_sends_all_requests_to_litellm(monkeypatch):
    use(monkeypatch, A)
    routes = ModelRoutes(Settings(route="litellm"))
    assert routes.find("tiny").reason == "TOOLGATE_ROUTE=litellm"
    assert routes.find("unheard of") is None


@pytest.mark.parametrize("params", CASES["unsupported"], ids=lambda params: next(iter(params)))
def test_unsupported_deployment_field_sends_requests_to_litellm(monkeypatch, params):
    expected = f"`{next(iter(params))}` in litellm_params"
    assert reason(monkeypatch, A, row("b", **params)) == expected == route_of().reason
    assert {*litellm_reasons("tiny", rows_of("tiny"))} == {expected}


@pytest.mark.parametrize("field", ["mock_response", "tools", "guardrails"])
def test_unsupported_default_of_the_router_sends_requests_to_litellm(monkeypatch, field):
    found = reason(monkeypatch, default_litellm_params={field: ["x"]})
    assert found == f"`{field}` in default_litellm_params"


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
def test_fallbacks_may_replace_parameters_only(monkeypatch, name, parameters, expected):
    for models in ("tiny", "*"):
        configured = [{models: [{"model": "other", **parameters}]}]
        found = reason(monkeypatch, A, OTHER, **{name: configured})
        assert found == (expected and f"`{expected}` in `{name}`")
    for configured in ([{"tiny": ["other"]}], [{"other": [{"model": "tiny", **parameters}]}], []):
        assert reason(monkeypatch, A, OTHER, **{name: configured}) is None


RULES = "LiteLLM's rules (`pre_call_rules`, `post_call_rules`)"


@pytest.mark.parametrize(
    ("owner", "name", "value", "expected"),
    [
        (litellm, "pre_call_rules", [lambda text: True], RULES),
        (litellm, "post_call_rules", [lambda text: True], RULES),
        (proxy_server, "general_settings", {"completion_model": "x"},
         "`completion_model` in general_settings"),
        (proxy_server, "general_settings", {"allowed_ips": ["x"]}, None),
        (proxy_server, "general_settings", {"pass_through_endpoints": ["x"]}, None),
        (proxy_server, "prisma_client", object(), None),
    ],
)  # fmt: skip
def test_global_settings_that_our_route_lacks_send_requests_to_litellm(
    monkeypatch, owner, name, value, expected
):
    monkeypatch.setattr(owner, name, value)
    assert reason(monkeypatch) == expected
    assert route_of().events is (name == "prisma_client")


@pytest.mark.parametrize("custom", [False, True], ids=["litellm", "custom"])
def test_budget_of_all_keys_needs_litellms_authentication(monkeypatch, custom):
    monkeypatch.setattr(proxy_server, "user_custom_auth", object() if custom else None)
    monkeypatch.setattr(litellm, "max_budget", 1.0)
    assert reason(monkeypatch) == ("`max_budget` in litellm_settings" if custom else None)


# --- defaults, and how long a route is known ------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "of_router", "expected"),
    CASES["defaults"],
    ids=["parameters", "none", "content", "body", "router", "router first", "body of a deployment"],
)
def test_defaults_are_parameters_of_router_deployment_and_body_with_litellms_precedence(
    monkeypatch, given, of_router, expected
):
    use(monkeypatch, A, default_litellm_params=of_router)
    assert target_of(row("a", **given)).defaults == expected


def test_model_route_is_cached_for_one_second_with_bounded_memory(monkeypatch):
    """LiteLLM's configuration may change while it runs."""
    clock = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    use(monkeypatch, A)
    known = ModelRoutes(Settings(route="auto"))
    first = known.find("tiny")
    use(monkeypatch, A, B, default_litellm_params={"mock_response": "x"})
    assert known.find("tiny") is first is not None
    clock[0] += module.FRESH + 0.01
    second = known.find("tiny")
    expected = "`mock_response` in default_litellm_params"
    assert (len(second.targets), second.reason) == (2, expected)
    use(monkeypatch, foreign("tiny"))
    clock[0] += module.FRESH + 0.01
    assert known.find("tiny") is None
    use(monkeypatch, row("a", group="team/*", model="toolgate/*"))
    monkeypatch.setattr(module, "MOST", 10)
    known = ModelRoutes(Settings(route="auto"))
    for number in range(35):
        assert known.find(f"team/{number}") is not None
        assert known.find(f"unheard of {number}") is None
    assert known.decided.cache_info().currsize <= 10


# --- deployments: which are ours, where they point to, their weights ------------------------------

ROWS = [
    row("a", group="small"), row("b", group="small"), row("c", group="large"),
    row("e", group="team/*", model="toolgate/*"), row("m", group="mixed"), foreign("mixed"),
    foreign("hosted"), foreign("openai/*"),
]  # fmt: skip
ALIASES = {"nick": "small", "hidden": {"model": "small", "hidden": True}, "alien": "hosted"}


@pytest.mark.parametrize(("model", "places", "is_foreign"), CASES["names"])
def test_deployments_of_ours_are_found_by_the_clients_model_name(
    monkeypatch, model, places, is_foreign
):
    groups = [{"group_name": "any", "models": ["small", "large"], "routing_strategy": SHUFFLE}]
    use(monkeypatch, *ROWS, model_group_alias=ALIASES, routing_groups=groups)
    assert {place.api_base for place in router.placements(model)} == {
        f"http://{name}" for name in places
    }
    assert is_foreign is None or router.is_foreign(model) is is_foreign
    assert router.model_names() == sorted({each["model_name"] for each in ROWS})


def test_limits_and_groups_are_read_from_either_place(monkeypatch):
    monkeypatch.setattr(proxy_server, "llm_router", None)
    assert router.placements(None) == router.placements("small") == router.model_names() == []
    assert not router.is_foreign("small")
    named = {"model_group": "m"}
    for params in ({"metadata": named}, {"metadata": None, "litellm_metadata": named}):
        assert router.group_of(params) == "m"
    for params in ({"metadata": {}}, {}):
        assert router.group_of(params) is None


@pytest.mark.parametrize(
    ("params", "placement"),
    [
        ({"model": "toolgate/org/M", "api_base": "http://a", "api_key": "k"},
         Placement("org/M", "http://a", "k")),
        ({"model": "toolgate/tiny"}, Placement("tiny", None, None)),
        ({"model": "openai/toolgate/tiny"}, None),
        ({"model": "toolgate"}, Placement("", None, None)),
        ({"model": "gpt-4o"}, None),
    ],
)  # fmt: skip
def test_placement_is_read_from_the_deployments_parameters(params, placement):
    assert router.placement_of({"litellm_params": params}) == placement


@pytest.mark.parametrize(
    ("weights", "expected"),
    [([3, 1], [3.0, 1.0]), ([3, None], [3.0, 0.0]), ([None, None], [1.0, 1.0]), ([0, 0], [1, 1])],
)
def test_deployments_without_weights_are_weighted_equally(weights, expected):
    assert router.weights_of([row("a", weight=weight) for weight in weights]) == expected


@pytest.mark.parametrize("name", ["rpm", "tpm"])
def test_limits_are_read_from_parameters_and_model_info(name):
    assert router.is_limited(row("a", **{name: 1}))
    assert router.is_limited(row("a", info={name: 1}))
    assert not router.is_limited(row("a", **{name: None}))
