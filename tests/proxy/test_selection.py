"""What LiteLLM's router makes of a preference, in this process."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import litellm
import pytest
from litellm.router import Router
from litellm.router_strategy.least_busy import LeastBusyLoggingHandler

from toolgate_proxy.affinity import Affinity
from toolgate_proxy.deployments import Deployments
from toolgate_proxy.litellm_host import router
from toolgate_proxy.provider import toolgate
from toolgate_proxy.settings import Settings

LONG = [{"role": "system", "content": "You are a careful assistant. " * 60}]
Row = dict[str, Any]


def row(name: str, **params: Any) -> Row:
    target = {"model": "toolgate/tiny", "api_base": f"http://{name}", "api_key": "k"}
    return {
        "model_name": "tiny",
        "litellm_params": target | params,
        "model_info": {"id": name},
    }


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    ours = {"provider": "toolgate", "custom_handler": toolgate}
    monkeypatch.setattr(litellm, "custom_provider_map", [ours])
    litellm.utils.custom_llm_setup()
    yield
    router.prefer(None)


def names(rows: list[Row]) -> list[str]:
    return [each["model_info"]["id"] for each in rows]


async def picked(made: Router, **request: Any) -> str:
    found = await made.async_get_available_deployment("tiny", request, messages=LONG)
    return str(found["model_info"]["id"])


def last(model: str, rows: list[Row], request: Mapping[str, Any], messages: Any) -> list[Row]:
    return rows[-1:]


def made(*rows: Row, **settings: Any) -> Router:
    return Router(model_list=list(rows), num_retries=0, disable_cooldowns=True, **settings)


@pytest.mark.parametrize(
    "strategy", ["simple-shuffle", "least-busy", "usage-based-routing-v2", "latency-based-routing"]
)
async def test_every_strategy_takes_what_is_preferred(strategy: str) -> None:
    some = made(row("a"), row("b"), row("c"), routing_strategy=strategy)
    router.prefer(last)
    assert {await picked(some) for _ in range(20)} == {"c"}
    router.prefer(None)
    assert {await picked(some) for _ in range(40)} != {"c"}


async def test_only_what_litellm_has_left_is_asked_about() -> None:
    """By the order of deployments, by their tags, by what is blocked."""
    some = made(row("a", order=1), row("b", order=1), row("c", order=2))
    router.prefer(last)
    assert await picked(some) == "b"
    blocked = row("c")
    blocked["model_info"]["blocked"] = True
    assert await picked(made(row("a"), row("b"), blocked)) == "b"
    tagged = made(
        row("a", tags=["mine"]), row("b", tags=["mine"]), row("c"), enable_tag_filtering=True
    )
    assert await picked(tagged, metadata={"tags": ["mine"]}) == "b"


@pytest.mark.parametrize("name", ["metadata", "litellm_metadata"])
async def test_a_retry_goes_anywhere(name: str) -> None:
    some = made(row("a"), row("b"))
    router.prefer(last)
    assert {await picked(some, **{name: {"attempted_retries": 1}}) for _ in range(40)} == {"a", "b"}
    assert {await picked(some, **{name: {"attempted_retries": 0}}) for _ in range(20)} == {"b"}
    assert 'metadata["attempted_retries"] = current_attempt + 1' in inspect.getsource(Router)


@pytest.mark.parametrize(
    "rows",
    [
        [row("a"), row("b", model="openai/gpt-4o")],
        [row("a"), row("b", rpm=10)],
        [row("a"), row("b", tpm=10)],
        [row("a", max_parallel_requests=1), row("b")],
        [row("a"), row("a")],
        [row("a", weight=1), row("b")],
        [row("a")],
    ],
)
def test_where_nothing_is_preferred(rows: list[Row]) -> None:
    """Others' deployments, limits of their own, and where there is nothing to choose."""
    affinity = Affinity(Deployments(Settings()))
    assert affinity.choose("tiny", rows, {}, LONG) is rows


def test_all_rows_of_the_deployment_that_is_preferred() -> None:
    affinity = Affinity(Deployments(Settings()))
    rows = [row("a"), row("b"), row("a"), row("b")]
    chosen = affinity.choose("tiny", rows, {}, LONG)
    assert names(chosen) in (["a", "a"], ["b", "b"])
    assert affinity.choose("tiny", rows[::-1], {}, LONG) == chosen


def test_what_least_busy_counts_by() -> None:
    source = inspect.getsource(LeastBusyLoggingHandler)
    assert "def log_pre_api_call" in source
    assert "async def async_log_failure_event" in source
    assert "_increment(kwargs, 1)" in source


@pytest.mark.parametrize(
    ("model", "foreign"),
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
def test_whose_model_it_is(model: str, foreign: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from litellm.proxy import proxy_server

    def elsewhere(name: str) -> Row:
        return {"model_name": name, "litellm_params": {"model": f"openai/{name}", "api_key": "k"}}

    mixed = row("b") | {"model_name": "mixed"}
    star = {"model_name": "openai/*", "litellm_params": {"model": "openai/*", "api_key": "k"}}
    asked = made(
        row("a"),
        mixed,
        elsewhere("mixed"),
        elsewhere("hosted"),
        star,
        model_group_alias={"alias-of-tiny": "tiny", "alias-of-hosted": "hosted"},
    )
    monkeypatch.setattr(proxy_server, "llm_router", asked)
    assert router.is_foreign(model) is foreign
