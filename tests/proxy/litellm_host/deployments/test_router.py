"""Deployments of LiteLLM's router: which are ours, where they point to, and their weights."""

from __future__ import annotations

from typing import Any

import pytest
from litellm.proxy import proxy_server

from tests.support.litellm.router import Row, foreign, row, use
from toolgate_proxy.litellm_host.deployments import router
from toolgate_proxy.routing.deployments import Placement


def bases(model: str | None) -> set[str | None]:
    return {place.api_base for place in router.placements(model)}


def test_deployments_are_found_by_client_facing_model_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(
        monkeypatch,
        row("a", group="small"),
        row("b", group="small"),
        row("c", group="large"),
        row("e", group="team/*", model="toolgate/*"),
        foreign("foreign"),
        model_group_alias={"nick": "small", "hidden": {"model": "small", "hidden": True}},
    )
    assert bases("small") == bases("nick") == bases("hidden") == {"http://a", "http://b"}
    assert bases("team/anything") == {"http://e"}
    assert bases(None) == {"http://a", "http://b", "http://c", "http://e"}
    assert bases("foreign") == bases("unheard of") == bases("") == set()
    assert router.model_names() == ["foreign", "large", "small", "team/*"]


def test_routing_group_has_the_deployments_of_its_models(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [
        {"group_name": "any", "models": ["small", "large"], "routing_strategy": "simple-shuffle"}
    ]
    rows = (row("a", group="small"), row("c", group="large"), row("d", group="other"))
    use(monkeypatch, *rows, routing_groups=groups)
    assert bases("any") == {"http://a", "http://c"}


def test_no_deployments_are_found_without_a_router(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_server, "llm_router", None)
    assert router.placements(None) == router.placements("small") == []
    assert router.model_names() == []
    assert not router.is_foreign("small")


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("tiny", False),
        ("hosted", True),
        ("mixed", False),
        ("alias-of-tiny", False),
        ("alias-of-hosted", True),
        ("openai/gpt-x", True),
        ("nobody", False),
        ("", False),
    ],
)
def test_model_is_foreign_if_all_its_deployments_are_foreign(
    model: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(
        monkeypatch,
        row("a"),
        row("b", group="mixed"),
        foreign("mixed"),
        foreign("hosted"),
        foreign("openai/*"),
        model_group_alias={"alias-of-tiny": "tiny", "alias-of-hosted": "hosted"},
    )
    assert router.is_foreign(model) is expected


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
def test_placement_is_read_from_the_deployments_parameters(
    params: Row, placement: Placement | None
) -> None:
    assert router.placement_of({"litellm_params": params}) == placement


@pytest.mark.parametrize(
    ("weights", "expected"),
    [([3, 1], [3.0, 1.0]), ([3, None], [3.0, 0.0]), ([None, None], [1.0, 1.0]), ([0, 0], [1, 1])],
)
def test_deployments_without_weights_are_weighted_equally(
    weights: list[int | None], expected: list[float]
) -> None:
    assert router.weights_of([row("a", weight=weight) for weight in weights]) == expected


@pytest.mark.parametrize("name", ["rpm", "tpm"])
def test_limits_are_read_from_parameters_and_model_info(name: str) -> None:
    assert router.is_limited(row("a", **{name: 1}))
    assert router.is_limited(row("a", info={name: 1}))
    assert not router.is_limited(row("a", **{name: None}))


@pytest.mark.parametrize(
    ("params", "group"),
    [
        ({"metadata": {"model_group": "m"}}, "m"),
        ({"litellm_metadata": {"model_group": "m"}}, "m"),
        ({"metadata": None, "litellm_metadata": {"model_group": "m"}}, "m"),
        ({"metadata": {}}, None),
        ({}, None),
    ],
)
def test_model_group_is_read_from_either_metadata_field(
    params: dict[str, Any], group: str | None
) -> None:
    assert router.group_of(params) == group
