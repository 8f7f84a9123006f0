"""Which deployment gets a request on our own route."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import litellm
import pytest

from tests.support.litellm.router import Row, foreign, row, use
from toolgate_proxy.litellm_host.deployments.model_route import target_of
from toolgate_proxy.litellm_host.deployments.router import Target, placement_of
from toolgate_proxy.litellm_host.deployments.selection import (
    OWN_STRATEGIES,
    Selection,
    Slots,
    limit_of,
)
from toolgate_proxy.routing.deployments import Deployments, Placement
from toolgate_proxy.routing.prefix_affinity import PrefixAffinity
from toolgate_proxy.settings import Settings

LONG = [{"role": "system", "content": "You are a careful assistant. " * 60}]
BODY = {"messages": LONG}
SHORT = {"messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def deployments() -> Deployments:
    return Deployments(Settings(redis_url=None))


@pytest.fixture
def selection(deployments: Deployments) -> Selection:
    return Selection(deployments, PrefixAffinity(deployments))


def names(rows: Sequence[Any]) -> list[str]:
    return [each["model_info"]["id"] for each in rows]


def down(deployments: Deployments, *rows: Row) -> None:
    for each in rows:
        placement = placement_of(each)
        assert placement is not None
        deployments.at(placement).state.note_failure("Gone", at_once=True)


def targets(rows: Sequence[Row]) -> list[Target]:
    return [target for row in rows if (target := target_of(row)) is not None]


def chosen(selection: Selection, rows: list[Row], strategy: str, body: Row, times: int) -> set[str]:
    return {
        str(selection.choose("tiny", targets(rows), strategy, body).row["model_info"]["id"])
        for _ in range(times)
    }


@pytest.mark.parametrize("strategy", OWN_STRATEGIES)
def test_long_prompts_with_a_common_prefix_go_to_one_deployment(
    selection: Selection, strategy: str
) -> None:
    rows = [row("a"), row("b"), row("c")]
    assert len(chosen(selection, rows, strategy, BODY, 20)) == 1


@pytest.mark.parametrize("strategy", OWN_STRATEGIES)
def test_requests_with_a_common_key_go_to_one_deployment(
    selection: Selection, deployments: Deployments, strategy: str
) -> None:
    """Each owner's keys have their own deployments; one at capacity is skipped."""
    rows = [row("a"), row("b"), row("c")]

    def place(key: str, owner: str = "team a", body: Row = SHORT) -> str:
        asked = {**body, "prompt_cache_key": key}
        chosen = selection.choose("tiny", targets(rows), strategy, asked, owner)
        return str(chosen.row["model_info"]["id"])

    homes = {}
    for number in range(24):
        home = homes[number] = place(f"key {number}")
        assert {place(f"key {number}", body=body) for body in (SHORT, BODY) * 3} == {home}
    assert set(homes.values()) == {"a", "b", "c"}
    assert {number: place(f"key {number}", "team b") for number in homes} != homes
    load = deployments.at(placement_of(row(homes[0]))).load  # type: ignore[arg-type]
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(load.running())
        assert place("key 0") != homes[0]
    assert place("key 0") == homes[0]


@pytest.mark.parametrize("strategy", OWN_STRATEGIES)
def test_short_prompts_go_to_any_deployment(selection: Selection, strategy: str) -> None:
    rows = [row("a"), row("b"), row("c")]
    assert chosen(selection, rows, strategy, SHORT, 60) == {"a", "b", "c"}


def test_simple_shuffle_chooses_by_weight(selection: Selection) -> None:
    rows = [row("a", weight=3), row("b", weight=1), row("c", weight=0)]
    picked = [
        selection.choose("tiny", targets(rows), "simple-shuffle", SHORT).row["model_info"]["id"]
        for _ in range(800)
    ]
    assert picked.count("c") == 0
    assert 0.65 < picked.count("a") / len(picked) < 0.85


def test_least_busy_chooses_by_in_flight_requests(
    selection: Selection, deployments: Deployments
) -> None:
    rows = [row("a"), row("b"), row("c")]
    loads = {each["model_info"]["id"]: deployments.at(placement_of(each)).load for each in rows}  # type: ignore[arg-type]
    with ExitStack() as stack:
        for name in ("a", "a", "b", "c"):
            stack.enter_context(loads[name].running())
        assert chosen(selection, rows, "least-busy", SHORT, 40) == {"b", "c"}
        stack.enter_context(loads["c"].running())
        assert chosen(selection, rows, "least-busy", SHORT, 20) == {"b"}
        assert chosen(selection, rows, "simple-shuffle", SHORT, 60) == {"a", "b", "c"}
    assert chosen(selection, rows, "least-busy", SHORT, 60) == {"a", "b", "c"}


def test_least_busy_distributes_requests_evenly(
    selection: Selection, deployments: Deployments
) -> None:
    rows = [row("a"), row("b")]
    with ExitStack() as stack:
        for _ in range(6):
            placement = selection.choose("tiny", targets(rows), "least-busy", SHORT).placement
            assert placement is not None
            stack.enter_context(deployments.at(placement).load.running())
        loads = [deployments.at(placement_of(each)).load.requests for each in rows]  # type: ignore[arg-type]
    assert loads == [3, 3]


@pytest.mark.parametrize("strategy", OWN_STRATEGIES)
@pytest.mark.parametrize("body", [BODY, SHORT], ids=["long", "short"])
def test_backend_that_is_down_gets_no_request_unless_all_are_down(
    selection: Selection, deployments: Deployments, strategy: str, body: Row
) -> None:
    rows = [row("a"), row("b"), row("c")]
    home = chosen(selection, rows, strategy, BODY, 1).pop()
    down(deployments, *(each for each in rows if each["model_info"]["id"] == home))
    assert home not in chosen(selection, rows, strategy, body, 40)
    down(deployments, *rows)
    assert chosen(selection, rows, strategy, body, 60) <= {"a", "b", "c"}
    assert names(selection.up(rows)) == ["a", "b", "c"]


def test_only_deployment_is_chosen_even_if_it_is_down(
    selection: Selection, deployments: Deployments
) -> None:
    rows = [row("a")]
    down(deployments, *rows)
    assert chosen(selection, rows, "simple-shuffle", BODY, 1) == {"a"}


@pytest.mark.parametrize(
    "rows",
    [
        [row("a"), row("b", model="openai/gpt-4o")],
        [row("a"), row("b", rpm=10)],
        [row("a"), row("b", tpm=10)],
        [row("a"), row("a")],
        [row("a", weight=1), row("b")],
        [row("a")],
    ],
)
def test_no_preference_among_foreign_limited_weighted_or_single_deployments(
    selection: Selection, rows: list[Row]
) -> None:
    assert selection.preferred("tiny", rows, {}, LONG) == (rows, None)


def test_all_deployments_at_the_preferred_placement_are_kept(selection: Selection) -> None:
    rows = [row("a"), row("b"), row("a"), row("b")]
    left, placement = selection.preferred("tiny", rows, {}, LONG)
    assert names(left) in (["a", "a"], ["b", "b"])
    assert placement is not None
    assert placement.api_base == f"http://{names(left)[0]}"
    assert selection.preferred("tiny", rows[::-1], {}, LONG) == (left, placement)


def test_alternatives_are_the_other_available_backends(
    selection: Selection, deployments: Deployments
) -> None:
    rows = [row("a"), row("b"), row("c"), row("c", weight=2), row("d"), foreign("tiny")]
    tried = deployments.at(Placement("tiny", "http://a", "k"))
    down(deployments, row("d"))
    found = selection.alternatives(rows, tried)
    assert sorted(str(place.api_base) for place in found) == ["http://b", "http://c"]
    assert selection.alternatives([row("a"), row("a", weight=2)], tried) == []
    orders = {
        tuple(str(place.api_base) for place in selection.alternatives(rows, tried))
        for _ in range(40)
    }
    assert len(orders) == 2


@pytest.mark.parametrize("strategy", OWN_STRATEGIES)
@pytest.mark.parametrize("body", [BODY, SHORT], ids=["long", "short"])
def test_full_deployment_gets_no_request_unless_all_are_full(
    selection: Selection, strategy: str, body: Row
) -> None:
    rows = [row("a", max_parallel_requests=1), row("b", max_parallel_requests=1)]
    with ExitStack() as held:
        held.enter_context(selection.slots.taken(rows[0]))
        assert chosen(selection, rows, strategy, body, 30) == {"b"}
        held.enter_context(selection.slots.taken(rows[1]))
        assert chosen(selection, rows, strategy, body, 30) <= {"a", "b"}


def test_only_one_alternative_with_limited_slots_which_is_held(
    selection: Selection, deployments: Deployments
) -> None:
    rows = [row(name, max_parallel_requests=1) for name in ("a", "b", "c")]
    tried = deployments.at(Placement("tiny", "http://a", "k"))
    assert len(selection.alternatives(rows, tried)) == 2
    with ExitStack() as held:
        found = [str(selection.alternatives(rows, tried, held)[0].api_base) for _ in range(2)]
        assert sorted(found) == ["http://b", "http://c"]
        assert selection.alternatives(rows, tried, held) == []
    assert len(selection.alternatives(rows, tried, ExitStack())) == 1


@pytest.mark.parametrize(
    ("params", "settings", "limit"),
    [
        ({}, {}, None),
        ({"max_parallel_requests": 3}, {}, 3),
        ({"max_parallel_requests": 3}, {"default_max_parallel_requests": 5}, 3),
        ({}, {"default_max_parallel_requests": 5}, 5),
        ({"max_parallel_requests": 0}, {}, None),
        ({"rpm": 3}, {}, None),
    ],
)
def test_limit_is_that_of_the_deployment_or_the_default(
    monkeypatch: pytest.MonkeyPatch, params: Row, settings: Any, limit: int | None
) -> None:
    made = row("a", **params)
    use(monkeypatch, made, **settings)
    assert limit_of(made) == limit


def test_request_without_a_free_slot_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    slots, limited, other = Slots(), row("a", max_parallel_requests=2), row("b")
    use(monkeypatch, limited, other)
    with ExitStack() as held:
        for _ in range(2):
            assert slots.has_free(limited)
            held.enter_context(slots.taken(limited))
            held.enter_context(slots.taken(other))
        assert not slots.has_free(limited)
        with pytest.raises(litellm.RateLimitError), slots.taken(limited):
            pass
        assert slots.has_free(other)
    assert slots.has_free(limited)
    assert not slots._taken


def test_slot_is_free_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    slots, limited = Slots(), row("a", max_parallel_requests=1)
    use(monkeypatch, limited)
    for _ in range(2):
        with pytest.raises(ValueError, match="x"), slots.taken(limited):
            raise ValueError("x")
    assert slots.has_free(limited)
