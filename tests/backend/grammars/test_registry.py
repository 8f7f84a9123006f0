"""The registry: what is loaded, pinned, and evicted."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.grammars.registry_bench import Bench, WorkerRpc, source
from toolgate_backend.grammars.registry import GrammarRegistry
from toolgate_core.errors import (
    BackendUnavailable,
    GrammarUnknown,
    InvalidRequest,
    InvalidTools,
)
from toolgate_core.wire import GrammarSource


async def test_a_grammar_is_loaded_on_every_rank_and_pinned_while_used(
    registry: GrammarRegistry, ranks: WorkerRpc
) -> None:
    tool = source("a")
    [verdict] = await registry.load([tool])
    assert (verdict.status, verdict.engine) == ("ready", "xgrammar")
    assert all(store.get(tool.key) for store in ranks.stores)
    with registry.pin([tool.key]):
        assert registry.pinned == 1
    assert registry.pinned == 0


async def test_pin_reports_an_unknown_key(registry: GrammarRegistry) -> None:
    with pytest.raises(GrammarUnknown) as unknown, registry.pin(["nope"]):
        pass
    assert unknown.value.keys == ("nope",)


async def test_concurrent_loads_of_a_grammar_share_one_compile(
    registry: GrammarRegistry, ranks: WorkerRpc
) -> None:
    await asyncio.gather(*(registry.load([source("a")]) for _ in range(8)))
    assert ranks.calls.count("toolgate_load") == 1


async def test_many_grammars_are_loaded_with_one_rpc(
    registry: GrammarRegistry, ranks: WorkerRpc
) -> None:
    many = [source(f"tool{i}").model_copy(update={"examined": True}) for i in range(60)]
    assert all(verdict.status == "ready" for verdict in await registry.load(many))
    assert ranks.calls.count("toolgate_load") == 1


async def test_cancelling_the_first_load_does_not_cancel_the_second(
    registry: GrammarRegistry,
) -> None:
    first = asyncio.create_task(registry.load([source("a")]))
    await asyncio.sleep(0)
    second = asyncio.create_task(registry.load([source("a")]))
    await asyncio.sleep(0)
    first.cancel()
    [verdict] = await second
    assert verdict.status == "ready"


async def test_the_least_recently_used_unpinned_grammar_is_evicted(
    registry: GrammarRegistry, ranks: WorkerRpc
) -> None:
    a, b, c, d = (source(name) for name in "abcd")
    await registry.load([a])
    await registry.load([b])
    with registry.pin([a.key]):
        await registry.load([c])
        await registry.load([d])
        assert ranks.stores[0].get(a.key)
        with pytest.raises(GrammarUnknown), registry.pin([b.key]):
            pass
    assert len(ranks.stores[0]) == 2


async def test_a_key_that_does_not_match_the_schema_is_rejected(registry: GrammarRegistry) -> None:
    good = source("a")
    forged = GrammarSource(key=good.key, name="a", parameters={"type": "object"})
    with pytest.raises(InvalidRequest):
        await registry.load([forged])


async def test_a_slow_compile_does_not_block_other_loads(
    registry: GrammarRegistry, bench: Bench
) -> None:
    bench.held.clear()
    slow = asyncio.create_task(registry.load([source("slow"), source("a")]))
    await asyncio.sleep(0)
    [verdict] = await registry.load([source("b").model_copy(update={"examined": True})])
    assert verdict.status == "ready"
    bench.held.set()
    assert [v.status for v in await slow] == ["ready", "ready"]


async def test_an_unavailable_quarantine_is_not_cached_as_a_verdict(
    registry: GrammarRegistry, bench: Bench
) -> None:
    bench.down = True
    with pytest.raises(BackendUnavailable):
        await registry.load([source("a")])
    bench.down = False
    [verdict] = await registry.load([source("a")])
    assert verdict.status == "ready"


async def test_nan_in_parameters_is_rejected(registry: GrammarRegistry) -> None:
    with pytest.raises(InvalidTools):
        await registry.load([GrammarSource(key="k", name="f", parameters={"const": float("nan")})])
