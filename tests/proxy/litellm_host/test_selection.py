"""Which deployment gets a request: by our own strategies, and by the hook in LiteLLM's router."""

from contextlib import ExitStack

import litellm
import pytest

from tests.proxy.kit import beside
from tests.support.litellm.router import foreign, made, row, use
from toolgate_proxy.litellm_host.routing.long_term import entry_points
from toolgate_proxy.litellm_host.routing.model_route import target_of
from toolgate_proxy.litellm_host.routing.router import placement_of
from toolgate_proxy.litellm_host.routing.selection import (
    OWN_STRATEGIES,
    Selection,
    SelectionHook,
    Slots,
    _is_retry,
    limit_of,
)
from toolgate_proxy.routing.deployments import Deployments, Placement
from toolgate_proxy.routing.prefix_affinity import PrefixAffinity
from toolgate_proxy.settings import Settings

CASES = beside(__file__)

HI = [{"role": "user", "content": "hi"}]
LONG = [{"role": "system", "content": "You are a careful assistant. " * 60}]
BODY, SHORT = {"messages": LONG}, {"messages": HI}
A, B, C = row("a"), row("b"), row("c")
SHUFFLE, BUSY = "simple-shuffle", "least-busy"
EACH = pytest.mark.parametrize("strategy", OWN_STRATEGIES)
SIZES = pytest.mark.parametrize("body", [BODY, SHORT], ids=["long", "short"])


@pytest.fixture
def deployments(monkeypatch):
    use(monkeypatch, A)
    return Deployments(Settings(redis_url=None))


@pytest.fixture
def selection(deployments):
    return Selection(deployments, PrefixAffinity(deployments))


def names(rows):
    return [each["model_info"]["id"] for each in rows]


def bases(places):
    return [place.api_base for place in places]


def down(deployments, *rows):
    for each in rows:
        deployments.at(placement_of(each)).state.note_failure("Gone", at_once=True)


def load_of(deployments, made):
    return deployments.at(placement_of(made)).load


def chosen(selection, rows, strategy, body, times):
    targets = [target_of(each) for each in rows]
    found = [selection.choose("tiny", targets, strategy, body).row for _ in range(times)]
    return {*names(found)}


# --- our own route --------------------------------------------------------------------------------


@EACH
def test_only_long_prompts_with_a_common_prefix_go_to_one_deployment(selection, strategy):
    assert len(chosen(selection, [A, B, C], strategy, BODY, 20)) == 1
    assert chosen(selection, [A, B, C], strategy, SHORT, 60) == {"a", "b", "c"}


@EACH
def test_requests_with_a_common_key_go_to_one_deployment(selection, deployments, strategy):
    """Each owner's keys have their own deployments; one at capacity is skipped."""
    targets = [target_of(each) for each in (A, B, C)]

    def place(key, owner="team a", body=SHORT):
        asked = {**body, "prompt_cache_key": key}
        return names([selection.choose("tiny", targets, strategy, asked, owner).row])[0]

    homes = {}
    for number in range(24):
        home = homes[number] = place(f"key {number}")
        assert {place(f"key {number}", body=body) for body in (SHORT, BODY) * 3} == {home}
    assert {*homes.values()} == {"a", "b", "c"}
    assert {number: place(f"key {number}", "team b") for number in homes} != homes
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(load_of(deployments, row(homes[0])).running())
        assert place("key 0") != homes[0]
    assert place("key 0") == homes[0]


def test_simple_shuffle_chooses_by_weight(selection):
    rows = [row("a", weight=3), row("b", weight=1), row("c", weight=0)]
    targets = [target_of(each) for each in rows]
    picked = names(selection.choose("tiny", targets, SHUFFLE, SHORT).row for _ in range(800))
    assert picked.count("c") == 0
    assert 0.65 < picked.count("a") / len(picked) < 0.85


def test_least_busy_chooses_by_in_flight_requests(selection, deployments):
    rows = [A, B, C]
    with ExitStack() as stack:
        for busy in (A, A, B, C):
            stack.enter_context(load_of(deployments, busy).running())
        assert chosen(selection, rows, BUSY, SHORT, 40) == {"b", "c"}
        stack.enter_context(load_of(deployments, C).running())
        assert chosen(selection, rows, BUSY, SHORT, 20) == {"b"}
        assert chosen(selection, rows, SHUFFLE, SHORT, 60) == {"a", "b", "c"}
    assert chosen(selection, rows, BUSY, SHORT, 60) == {"a", "b", "c"}


@EACH
@SIZES
def test_backend_that_is_down_gets_no_request_unless_all_are_down(
    selection, deployments, strategy, body
):
    rows = [A, B, C]
    home = chosen(selection, rows, strategy, BODY, 1).pop()
    down(deployments, row(home))
    assert home not in chosen(selection, rows, strategy, body, 40)
    down(deployments, *rows)
    assert chosen(selection, rows, strategy, body, 60) <= {"a", "b", "c"}
    assert chosen(selection, [A], SHUFFLE, body, 1) == {"a"}
    assert names(selection.up(rows)) == ["a", "b", "c"]


@EACH
@SIZES
def test_full_deployment_gets_no_request_unless_all_are_full(selection, strategy, body):
    rows = [row("a", max_parallel_requests=1), row("b", max_parallel_requests=1)]
    with ExitStack() as held:
        held.enter_context(selection.slots.hold(rows[0]))
        assert chosen(selection, rows, strategy, body, 30) == {"b"}
        held.enter_context(selection.slots.hold(rows[1]))
        assert chosen(selection, rows, strategy, body, 30) <= {"a", "b"}


@pytest.mark.parametrize(
    "rows",
    [
        [A, row("b", model="openai/gpt-4o")],
        [A, row("b", rpm=10)],
        [A, row("b", tpm=10)],
        [A, A],
        [row("a", weight=1), B],
        [A],
    ],
)
def test_no_preference_among_foreign_limited_weighted_or_single_deployments(selection, rows):
    assert selection.preferred("tiny", rows, BODY) == (rows, None)


def test_all_deployments_at_the_preferred_placement_are_kept(selection):
    rows = [A, B, A, B]
    left, placement = selection.preferred("tiny", rows, BODY)
    assert names(left) in (["a", "a"], ["b", "b"])
    assert placement.api_base == f"http://{names(left)[0]}"
    assert selection.preferred("tiny", rows[::-1], BODY) == (left, placement)


def test_alternatives_are_other_available_backends_and_a_slot_is_held_for_one(
    selection, deployments
):
    rows = [A, B, C, row("c", weight=2), row("d"), foreign("tiny")]
    tried = deployments.at(Placement("tiny", "http://a", "k"))
    down(deployments, row("d"))
    assert sorted(bases(selection.alternatives(rows, tried))) == ["http://b", "http://c"]
    assert selection.alternatives([A, row("a", weight=2)], tried) == []
    assert len({tuple(bases(selection.alternatives(rows, tried))) for _ in range(40)}) == 2
    rows = [row(name, max_parallel_requests=1) for name in "abc"]
    tried = deployments.at(Placement("tiny", "http://a", "k"))
    assert len(selection.alternatives(rows, tried)) == 2
    with ExitStack() as held:
        found = [selection.alternatives(rows, tried, held)[0] for _ in range(2)]
        assert sorted(bases(found)) == ["http://b", "http://c"]
        assert selection.alternatives(rows, tried, held) == []
    assert len(selection.alternatives(rows, tried, ExitStack())) == 1


@pytest.mark.parametrize(("params", "settings", "limit"), CASES["limits"])
def test_limit_is_that_of_the_deployment_or_the_default(monkeypatch, params, settings, limit):
    limited = row("a", **params)
    use(monkeypatch, limited, **settings)
    assert limit_of(limited) == limit


def test_request_without_a_free_slot_is_refused_until_another_ends(monkeypatch):
    slots, limited = Slots(), row("a", max_parallel_requests=2)
    use(monkeypatch, limited, B)
    with ExitStack() as held:
        for _ in range(2):
            assert slots.has_free(limited)
            held.enter_context(slots.hold(limited))
            held.enter_context(slots.hold(B))
        assert not slots.has_free(limited)
        with pytest.raises(litellm.RateLimitError), slots.hold(limited):
            pass
        assert slots.has_free(B)
    for _ in range(3):  # an error also ends it
        with pytest.raises(ValueError, match="x"), slots.hold(limited):
            raise ValueError("x")
    assert slots.has_free(limited)
    assert not slots._taken


# --- the hook in LiteLLM's router -----------------------------------------------------------------

STRATEGIES = [SHUFFLE, BUSY, "usage-based-routing-v2", "latency-based-routing"]


class Prefers(PrefixAffinity):
    """Every prompt prefers the backend of that name, if it has one."""

    def __init__(self, name):
        super().__init__(Deployments(Settings()))
        self._name = name

    def choose(self, model, weights, request, owner=""):
        return next((place for place in weights if place.api_base == f"http://{self._name}"), None)


def hooked(prefers, deployments):
    hook = SelectionHook(Selection(deployments, Prefers(prefers)))
    litellm.callbacks.append(hook)
    return hook


async def picked(router, times=20, **request):
    choose = entry_points(router).select
    return {*names([await choose("tiny", {**request}, messages=LONG) for _ in range(times)])}


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_every_litellm_strategy_chooses_the_preferred_deployment_that_is_up(
    deployments, strategy
):
    router = made(A, B, C, routing_strategy=strategy)
    assert await picked(router, 40) != {"c"}
    hooked("c", deployments)
    assert await picked(router) == {"c"}
    down(deployments, C)
    assert "c" not in await picked(router, 30)
    down(deployments, A, B)
    assert await picked(router, 5) <= {"a", "b", "c"}


ORDERED = [row("a", order=1), row("b", order=1), row("c", order=2)]
TAGGED = [row("a", tags=["mine"]), row("b", tags=["mine"]), C]
TOO_SHORT = row("c", model="toolgate/short-context", info={"max_input_tokens": 5})
MINE = {"metadata": {"tags": ["mine"]}}


@pytest.mark.parametrize(
    ("rows", "settings", "request_", "gone", "expected"),
    [
        (ORDERED, {}, {}, "", "ab"),
        (ORDERED, {}, {}, "ab", "c"),
        (TAGGED, {"enable_tag_filtering": True}, MINE, "", "ab"),
        ([A, B, row("c", info={"blocked": True})], {}, {}, "", "ab"),
        ([A, TOO_SHORT], {"enable_pre_call_checks": True}, {}, "", "a"),
        ([A, B, C], {"enable_weighted_failover": True}, {"_excluded_deployment_ids": ["c"]}, "",
         "ab"),
    ],
    ids=["order", "next order", "tags", "blocked", "context", "failed before"],
)  # fmt: skip
async def test_settings_of_deployments_override_the_preference(
    deployments, monkeypatch, rows, settings, request_, gone, expected
):
    """With `enable_weighted_failover` the router excludes what has failed, after the hook."""
    router = use(monkeypatch, *rows, **settings)
    hooked("c", deployments)
    down(deployments, *map(row, gone))
    assert await picked(router, 40, **request_) == {*expected}


@pytest.mark.parametrize("name", ["metadata", "litellm_metadata"])
async def test_retry_has_no_preferred_deployment(deployments, name):
    router = made(A, B)
    hooked("b", deployments)
    assert await picked(router, 40, **{name: {"attempted_retries": 1}}) == {"a", "b"}
    assert await picked(router, 20, **{name: {"attempted_retries": 0}}) == {"b"}
    assert await picked(router, 40, **{name: {"model_info": {"id": "b"}}}) == {"a", "b"}
    elsewhere = {"attempted_retries": 0, "model_info": {"id": "of another model"}}
    assert await picked(router, 20, **{name: elsewhere}) == {"b"}


async def test_router_retries_are_recognised(deployments, monkeypatch):
    """The hook relies on what the router stores in the request."""
    router = made(A, B, num_retries=1, retry_after=0)
    hook = hooked("b", deployments)
    seen = []
    original = hook.async_filter_deployments

    async def noting(*args, **kwargs):
        seen.append(_is_retry(kwargs["healthy_deployments"], kwargs["request_kwargs"]))
        return await original(*args, **kwargs)

    async def fail(*args, **kwargs):
        raise litellm.InternalServerError("No.", "toolgate", "tiny")

    monkeypatch.setattr(hook, "async_filter_deployments", noting)
    monkeypatch.setattr(litellm, "acompletion", fail)
    with pytest.raises(litellm.InternalServerError):
        await router.acompletion("tiny", messages=LONG)
    assert seen == [False, True]


async def test_deployments_of_mixed_providers_are_not_filtered(deployments):
    router = made(A, B, foreign("tiny"))
    hooked("b", deployments)
    down(deployments, A)
    assert len(await picked(router, 40)) == 2
    hook = SelectionHook(Selection(Deployments(Settings()), Prefers(None)))
    assert await hook.async_filter_deployments("tiny", [B, C], None, None) == [B, C]
    assert await hook.async_filter_deployments("tiny", [], LONG, {}) == []


@pytest.mark.parametrize("name", ["metadata", "litellm_metadata"])
async def test_cache_keys_belong_to_the_team_or_the_key(deployments, name):
    """As LiteLLM's metadata describes them."""
    router = made(A, B, C)
    affinity = PrefixAffinity(deployments)
    litellm.callbacks.append(SelectionHook(Selection(deployments, affinity)))

    async def places(**metadata):
        found = []
        for number in range(12):
            request = {"prompt_cache_key": f"key {number}", name: metadata}
            chosen = await entry_points(router).select("tiny", request, messages=HI)
            found += names([chosen])
            with load_of(deployments, chosen).running():
                pass  # it has arrived
        return found

    team = {"user_api_key_metadata": {"team": "a"}}
    home = await places(user_api_key="1", **team)
    assert {*home} == {"a", "b", "c"}
    assert await places(user_api_key="2", **team) == home
    assert await places(user_api_key="2", user_api_key_team_id="a") == home
    assert await places(user_api_key="1") != home
    assert await places(user_api_key="1") != await places(user_api_key="2")


async def test_in_flight_request_counts_as_load(deployments):
    """Otherwise all requests of a burst would prefer one backend."""
    router = made(A, B)
    hooked("b", deployments)
    assert await picked(router, 3) == {"b"}
    assert [load_of(deployments, each).requests for each in (A, B)] == [0, 3]
