"""The hook in LiteLLM's router: backends that are down are avoided, the preferred one is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import litellm
import pytest
from litellm.router import Router

from tests.support.litellm.router import Row, foreign, made, row, use
from toolgate_proxy.litellm_host.deployments.router import placement_of
from toolgate_proxy.litellm_host.deployments.selection import (
    Selection,
    SelectionHook,
    _is_retry,
)
from toolgate_proxy.routing.deployments import Deployments, Placement
from toolgate_proxy.routing.prefix_affinity import PrefixAffinity
from toolgate_proxy.settings import Settings

HI = [{"role": "user", "content": "hi"}]
LONG = [{"role": "system", "content": "You are a careful assistant. " * 60}]

STRATEGIES = ["simple-shuffle", "least-busy", "usage-based-routing-v2", "latency-based-routing"]


class Prefers(PrefixAffinity):
    """Every prompt prefers the backend of that name, if it has one."""

    def __init__(self, name: str | None) -> None:
        super().__init__(Deployments(Settings()))
        self._name = name

    def choose(
        self,
        model: str,
        weights: Mapping[Placement, float],
        request: Mapping[str, Any],
        messages: object = None,
        owner: str = "",
    ) -> Placement | None:
        return next((place for place in weights if place.api_base == f"http://{self._name}"), None)


@pytest.fixture
def deployments() -> Deployments:
    return Deployments(Settings(redis_url=None))


def down(deployments: Deployments, *rows: Row) -> None:
    for each in rows:
        placement = placement_of(each)
        assert placement is not None
        deployments.at(placement).state.note_failure("Gone", at_once=True)


def hooked(prefers: str | None, deployments: Deployments) -> SelectionHook:
    hook = SelectionHook(Selection(deployments, Prefers(prefers)), deployments)
    litellm.callbacks.append(hook)
    return hook


async def picked(router: Router, times: int = 20, **request: Any) -> set[str]:
    found = set()
    for _ in range(times):
        chosen = await router.async_get_available_deployment("tiny", {**request}, messages=LONG)
        found.add(str(chosen["model_info"]["id"]))
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_every_litellm_strategy_chooses_the_preferred_deployment(
    deployments: Deployments, strategy: str
) -> None:
    router = made(row("a"), row("b"), row("c"), routing_strategy=strategy)
    assert await picked(router, 40) != {"c"}
    hooked("c", deployments)
    assert await picked(router) == {"c"}


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_every_litellm_strategy_avoids_backends_that_are_down(
    deployments: Deployments, strategy: str
) -> None:
    router = made(row("a"), row("b"), row("c"), routing_strategy=strategy)
    hooked(None, deployments)
    down(deployments, row("b"))
    assert "b" not in await picked(router, 30)
    down(deployments, row("a"), row("c"))
    assert await picked(router, 5) <= {"a", "b", "c"}


ORDERED = (row("a", order=1), row("b", order=1), row("c", order=2))
TAGGED = (row("a", tags=["mine"]), row("b", tags=["mine"]), row("c"))
BLOCKED = (row("a"), row("b"), row("c", info={"blocked": True}))
MINE = {"metadata": {"tags": ["mine"]}}


@pytest.mark.parametrize(
    ("rows", "settings", "request_", "gone", "expected"),
    [
        (ORDERED, {}, {}, "", {"a", "b"}),
        (ORDERED, {}, {}, "ab", {"c"}),
        (TAGGED, {"enable_tag_filtering": True}, MINE, "", {"a", "b"}),
        (BLOCKED, {}, {}, "", {"a", "b"}),
    ],
    ids=["order", "next order", "tags", "blocked"],
)
async def test_settings_of_deployments_override_the_preference(
    deployments: Deployments,
    rows: tuple[Row, ...],
    settings: Row,
    request_: Row,
    gone: str,
    expected: set[str],
) -> None:
    router = made(*rows, **settings)
    hooked("c", deployments)
    down(deployments, *map(row, gone))
    assert await picked(router, 40, **request_) == expected


@pytest.mark.parametrize("name", ["metadata", "litellm_metadata"])
async def test_retry_has_no_preferred_deployment(deployments: Deployments, name: str) -> None:
    router = made(row("a"), row("b"))
    hooked("b", deployments)
    assert await picked(router, 40, **{name: {"attempted_retries": 1}}) == {"a", "b"}
    assert await picked(router, 20, **{name: {"attempted_retries": 0}}) == {"b"}
    assert await picked(router, 40, **{name: {"model_info": {"id": "b"}}}) == {"a", "b"}
    elsewhere = {"attempted_retries": 0, "model_info": {"id": "of another model"}}
    assert await picked(router, 20, **{name: elsewhere}) == {"b"}


async def test_router_retries_are_recognised(
    deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook relies on what the router stores in the request."""
    router = made(row("a"), row("b"), num_retries=1, retry_after=0)
    hook = hooked("b", deployments)
    seen: list[bool] = []
    original = hook.async_filter_deployments

    async def noting(*args: Any, **kwargs: Any) -> Any:
        seen.append(_is_retry(kwargs["healthy_deployments"], kwargs["request_kwargs"]))
        return await original(*args, **kwargs)

    async def fail(*args: Any, **kwargs: Any) -> None:
        raise litellm.InternalServerError("No.", "toolgate", "tiny")

    monkeypatch.setattr(hook, "async_filter_deployments", noting)
    monkeypatch.setattr(litellm, "acompletion", fail)
    with pytest.raises(litellm.InternalServerError):
        await router.acompletion("tiny", messages=LONG)
    assert seen == [False, True]


async def test_failed_deployment_is_not_preferred_again(
    deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `enable_weighted_failover` the router excludes what has failed, after the hook."""
    rows = (row("a"), row("b"), row("c"))
    router = use(monkeypatch, *rows, enable_weighted_failover=True)
    hooked("b", deployments)
    assert await picked(router, 30, _excluded_deployment_ids=["b"]) == {"a", "c"}


async def test_litellms_pre_call_checks_override_the_preference(
    deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deployment whose context is too short for the prompt is never chosen."""
    short = row("b", model="toolgate/short-context", info={"max_input_tokens": 5})
    rows = (row("a"), short)
    router = use(monkeypatch, *rows, enable_pre_call_checks=True)
    assert await picked(router) == {"a"}
    hooked("b", deployments)
    assert await picked(router) == {"a"}


async def test_deployments_of_mixed_providers_are_not_filtered(
    deployments: Deployments,
) -> None:
    router = made(row("a"), row("b"), foreign("tiny"))
    hooked("b", deployments)
    down(deployments, row("a"))
    assert len(await picked(router, 40)) == 2


@pytest.mark.parametrize("name", ["metadata", "litellm_metadata"])
async def test_cache_keys_belong_to_the_team_or_the_key(
    deployments: Deployments, name: str
) -> None:
    """As LiteLLM's metadata describes them."""
    router = made(row("a"), row("b"), row("c"))
    litellm.callbacks.append(
        SelectionHook(Selection(deployments, PrefixAffinity(deployments)), deployments)
    )

    async def places(**metadata: Any) -> list[str]:
        found = []
        for number in range(12):
            request = {"prompt_cache_key": f"key {number}", name: metadata}
            chosen = await router.async_get_available_deployment("tiny", request, messages=HI)
            found.append(str(chosen["model_info"]["id"]))
            load = deployments.at(placement_of(chosen)).load  # type: ignore[arg-type]
            with load.running():
                pass  # it has arrived
        return found

    team = {"user_api_key_metadata": {"team": "a"}}
    home = await places(user_api_key="1", **team)
    assert set(home) == {"a", "b", "c"}
    assert await places(user_api_key="2", **team) == home
    assert await places(user_api_key="2", user_api_key_team_id="a") == home
    assert await places(user_api_key="1") != home
    assert await places(user_api_key="1") != await places(user_api_key="2")


async def test_in_flight_request_counts_as_load(deployments: Deployments) -> None:
    """Otherwise all requests of a burst would prefer one backend."""
    router = made(row("a"), row("b"))
    hooked("b", deployments)
    assert await picked(router, 3) == {"b"}
    loads = [deployments.at(placement_of(row(name))).load.requests for name in ("a", "b")]  # type: ignore[arg-type]
    assert loads == [0, 3]


async def test_selection_hook_passes_its_arguments_through(deployments: Deployments) -> None:
    hook = SelectionHook(Selection(deployments, Prefers(None)), deployments)
    rows = [row("a"), row("b")]
    assert await hook.async_filter_deployments("tiny", rows, None, None) == rows
    assert await hook.async_filter_deployments("tiny", [], LONG, {}) == []
