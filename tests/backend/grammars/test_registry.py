"""The registry: what is loaded, pinned, shared, refused and evicted."""

import asyncio
import logging
from concurrent.futures import Future
from contextlib import suppress

import pytest
from prometheus_client import REGISTRY

from tests.support.grammars.registry_bench import Clock, WorkerRpc, registry_over, source
from tests.support.loop_errors import no_loop_errors
from tests.support.schemas import hostile_schemas
from toolgate_backend.errors import GrammarNotLoaded
from toolgate_backend.grammars import metrics, store
from toolgate_backend.grammars.registry import COMPLEX_RETRY_SECONDS
from toolgate_backend.grammars.store import GrammarStore
from toolgate_core.errors import (
    BackendUnavailable,
    InvalidRequest,
    InvalidTools,
)
from toolgate_core.killable import JobLimits
from toolgate_core.wire import GrammarSource, GrammarVerdict, ResidualKeyword


def held(registry, *sources):
    """The grammars of a request that has these sources."""
    return registry.held({each.key: lambda each=each: each for each in sources})


def examined(tool):
    """The source of a tool that another backend has examined."""
    return tool.after(GrammarVerdict(key=tool.key, status="ready"))


async def refusals(registry, *sources):
    """The refusals among the verdicts on the grammars of a request."""
    async with held(registry, *sources) as verdicts:
        return [each for each in verdicts.values() if each.status == "refused"]


# --- registry ---
async def test_a_grammar_is_loaded_on_every_rank_and_pinned_while_used(registry, ranks):
    tool = source("a")
    [verdict] = await registry.load([tool])
    assert (verdict.status, verdict.engine) == ("ready", "xgrammar")
    assert all(store.get(tool.key) for store in ranks.stores)
    async with held(registry, tool):
        assert registry.pinned == 1
    assert registry.pinned == 0


async def test_a_request_loads_the_grammars_that_are_missing(registry, ranks, bench):
    a, b = source("a"), source("b")
    await registry.load([a])
    read = []
    needed = {each.key: lambda each=each: read.append(each.name) or each for each in (a, b)}
    async with registry.held(needed) as verdicts:
        assert read == ["b"]
        assert bench.examined == [a.key, b.key]
        assert all(store.get(b.key) for store in ranks.stores)
    assert {key: each.status for key, each in verdicts.items()} == {a.key: "ready", b.key: "ready"}
    assert registry.pinned == 0


async def test_concurrent_requests_share_the_load_of_a_new_grammar(registry, ranks):
    async def request():
        async with held(registry, source("a")):
            await asyncio.sleep(0)

    await asyncio.gather(*(request() for _ in range(8)))
    assert ranks.calls.count("toolgate_load") == 1


async def test_a_request_with_a_grammar_that_does_not_match_its_key_is_rejected(registry):
    forged = GrammarSource(key=source("a").key, name="a", parameters={"type": "object"})
    with pytest.raises(InvalidRequest):
        async with held(registry, forged):
            pass
    assert registry.pinned == 0


async def test_all_refused_grammars_of_a_request_are_named_and_the_others_load(registry, ranks):
    good, bad, worse = source("a"), source("b", type="strange"), source("c", type="stranger")
    for _ in range(2):
        found = await refusals(registry, good, bad, worse)
        assert [(each.key, each.pointer) for each in found] == [
            (bad.key, "/properties/x/type"),
            (worse.key, "/properties/x/type"),
        ]
        assert all(each.status == "refused" and each.reason for each in found)
    assert registry.pinned == 0
    assert all(store.get(good.key) for store in ranks.stores)


async def test_many_grammars_are_loaded_with_one_rpc(registry, ranks):
    many = [examined(source(f"tool{i}")) for i in range(60)]
    assert all(verdict.status == "ready" for verdict in await registry.load(many))
    assert ranks.calls.count("toolgate_load") == 1


async def test_cancelling_the_first_load_does_not_cancel_the_second(registry):
    first = asyncio.create_task(registry.load([source("a")]))
    await asyncio.sleep(0)
    second = asyncio.create_task(registry.load([source("a")]))
    await asyncio.sleep(0)
    first.cancel()
    [verdict] = await second
    assert verdict.status == "ready"


async def test_the_least_recently_used_unpinned_grammar_is_evicted(registry, ranks):
    a, b, c, d = (source(name) for name in "abcd")
    await registry.load([a])
    await registry.load([b])
    async with held(registry, a):
        await registry.load([c])
        await registry.load([d])
        assert ranks.stores[0].get(a.key)
        with pytest.raises(GrammarNotLoaded):
            ranks.stores[0].get(b.key)
    assert len(ranks.stores[0]) == 2


async def test_a_slow_compile_does_not_block_other_loads(registry, bench):
    bench.held.clear()
    slow = asyncio.create_task(registry.load([source("slow"), source("a")]))
    await asyncio.sleep(0)
    [verdict] = await registry.load([examined(source("b"))])
    assert verdict.status == "ready"
    bench.held.set()
    assert [v.status for v in await slow] == ["ready", "ready"]


async def test_an_unavailable_quarantine_is_not_cached_as_a_verdict(registry, bench):
    bench.down = True
    with pytest.raises(BackendUnavailable):
        await registry.load([source("a")])
    bench.down = False
    [verdict] = await registry.load([source("a")])
    assert verdict.status == "ready"


async def test_nan_in_parameters_is_rejected(registry):
    with pytest.raises(InvalidTools):
        await registry.load([GrammarSource(key="k", name="f", parameters={"const": float("nan")})])


# --- registry and examined schemas ---
def counted(counter):
    return float(counter._value.get())


async def test_a_compiled_grammar_is_loaded_by_another_registry(registry, ranks, vocabulary, bench):
    tool = source("a")
    for _ in range(2):
        [given] = await registry.load([tool])
        assert given.blob is not None

    other = registry_over(WorkerRpc(vocabulary), bench, Clock(), blob_cache_bytes=0)
    before = counted(metrics.GRAMMAR_LOADS.labels("blob"))
    [verdict] = await other.load([tool.after(given)])
    assert (verdict.status, verdict.compile_ms) == ("ready", None)
    assert verdict.load_ms is not None
    assert verdict.blob is None  # it keeps none
    assert counted(metrics.GRAMMAR_LOADS.labels("blob")) == before + 1


async def test_an_invalid_blob_is_counted_and_the_grammar_is_compiled(registry, ranks):
    before, tool = counted(metrics.BLOB_REJECTS), source("a")
    damaged = GrammarVerdict(key=tool.key, status="ready", blob="Z2FyYmFnZQ==")
    [verdict] = await registry.load([tool.after(damaged)])
    assert verdict.status == "ready"
    assert verdict.compile_ms is not None
    assert all(store.get(tool.key) for store in ranks.stores)
    assert counted(metrics.BLOB_REJECTS) == before + 1


async def test_a_rewritten_schema_is_reused_by_another_registry(
    registry, vocabulary, bench, monkeypatch
):
    """Only the quarantine rewrites schemas; workers get the stored result."""
    tool = source("a", type="array", items={"type": "string"}, uniqueItems=True)
    left = (ResidualKeyword(pointer="/properties/x/uniqueItems", keyword="uniqueItems"),)
    [given] = await registry.load([tool])
    assert given.residual == left
    assert given.rewritten is not None
    assert "uniqueItems" not in given.rewritten

    other = registry_over(WorkerRpc(vocabulary), bench, Clock(), blob_cache_bytes=0)
    monkeypatch.setattr("toolgate_backend.grammars.engines.choice.preparation", None)  # unused
    [verdict] = await other.load([tool.after(given)])
    assert (verdict.status, verdict.residual) == ("ready", left)
    assert verdict.rewritten == given.rewritten
    assert bench.examined == [tool.key]


async def test_stored_measurements_are_reused_by_registry_and_workers(registry, ranks):
    """Backends that load a stored grammar reject too small budgets in the same way."""
    verdict = GrammarVerdict(key="", status="ready", least_tokens=17, extra_tokens=64)
    tool = source("a").after(verdict)
    [loaded] = await registry.load([tool])
    assert loaded.least_tokens == 17
    held = [store.get(tool.key) for store in ranks.stores]
    assert {(each.least_tokens, each.extra_tokens) for each in held} == {(17, 64)}


async def test_examined_schemas_skip_the_quarantine(registry, bench):
    new, seen = source("a"), examined(source("b"))
    await registry.load([new, seen])
    assert bench.examined == [new.key]


# --- registry refusals ---
async def test_a_refusal_is_cached(registry, ranks, bench):
    bad = source("a", type="strange")
    for _ in range(2):
        [verdict] = await registry.load([bad])
        assert (verdict.status, verdict.pointer) == ("refused", "/properties/x/type")
        assert verdict.code == "schema_not_enforceable"
    assert bench.examined == [bad.key]
    assert not ranks.calls  # it never came near the engine
    assert len(await refusals(registry, bad)) == 1
    assert bench.examined == [bad.key]


@pytest.mark.parametrize("what", hostile_schemas.OVER_LIMITS)
async def test_a_schema_over_the_limits_is_refused_before_the_quarantine(
    registry, ranks, bench, what
):
    big = GrammarSource.model_construct(
        key="k", name="f", parameters=hostile_schemas.OVER_LIMITS[what]
    )
    good = source("a")
    refused, ready = await registry.load([big, good])
    assert (refused.status, refused.code) == ("refused", "schema_too_complex")
    assert ready.status == "ready"
    assert bench.examined == [good.key]


async def test_a_request_retries_a_too_complex_schema_after_the_delay(registry, bench, clock):
    tool = source("a")
    bench.too_dear = True
    for _ in range(2):
        [refused] = await refusals(registry, tool)
        assert refused.code == "schema_too_complex"
    bench.too_dear, clock.now = False, COMPLEX_RETRY_SECONDS
    assert not await refusals(registry, tool)
    assert len(bench.examined) == 2


async def test_a_schema_is_not_evicted_during_its_retry(registry, bench, clock):
    """If the least recently used verdict were evicted now, the retry would get no verdict."""
    tool, others = source("a"), [source(name) for name in "bcdefgh"]
    bench.too_dear = True
    await registry.load([tool])
    bench.too_dear, clock.now = False, COMPLEX_RETRY_SECONDS
    bench.held.clear()
    gone = asyncio.create_task(registry.load([tool]))
    await asyncio.sleep(0)
    gone.cancel()
    bench.held.set()
    for other in others:
        await registry.load([other])
    async with asyncio.timeout(20):
        assert [v.status for v in await registry.load([tool])] == ["ready"]


async def test_a_failure_of_a_rank_is_no_verdict_on_the_schema(registry, ranks, monkeypatch):
    tool = source("a")

    def out_of_memory(*_, **__):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(ranks.stores[1], "_compiled", out_of_memory)
        with pytest.raises(BackendUnavailable, match="MemoryError") as failed:
            await registry.load([tool])
    assert (failed.value.status, failed.value.retry_after) == (503, 2)
    [verdict] = await registry.load([tool])
    assert verdict.status == "ready"
    assert all(store.get(tool.key) for store in ranks.stores)


@pytest.mark.exhaustive
async def test_a_load_that_fails_after_its_client_left_is_not_reported(registry, bench):
    bench.down = True
    bench.held.clear()
    async with no_loop_errors():
        waiting = asyncio.create_task(registry.load([source("a")]))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        del waiting
        bench.held.set()
        await asyncio.sleep(0.05)


# --- abandoned loads ---
ENDLESS = "endless"
"""A tool of this name has a load that does not end."""


@pytest.fixture
def endless(monkeypatch):
    """The keys of the endless loads that were begun."""
    begun = []
    load = GrammarStore._compiled

    def load_or_run_on(self, key, *, name, **source):
        if name != ENDLESS:
            return load(self, key, name=name, **source)
        begun.append(key)
        while True:
            pass

    monkeypatch.setattr(GrammarStore, "_compiled", load_or_run_on)
    return begun


@pytest.mark.exhaustive
async def test_a_load_that_does_not_end_is_refused_and_others_load(
    vocabulary, bench, clock, endless, caplog
):
    ranks = WorkerRpc(vocabulary, JobLimits(cpu_seconds=0.3, wall_seconds=300))
    registry = registry_over(ranks, bench, clock)
    before = _abandoned()
    stuck = [source(ENDLESS), source(ENDLESS, type="string")]  # one for each thread
    with caplog.at_level(logging.ERROR):
        verdicts = await registry.load([*stuck, source("other")])
    assert [each.status for each in verdicts] == ["refused", "refused", "ready"]
    assert {each.code for each in verdicts[:2]} == {"schema_too_complex"}
    assert _abandoned() == before + 2
    assert all(each.key in caplog.text for each in stuck)
    assert len(endless) == 4  # once on each rank

    clock.now = COMPLEX_RETRY_SECONDS
    assert [each.status for each in await registry.load(stuck)] == ["refused", "refused"]
    [later] = await registry.load([source("later")])
    assert later.status == "ready"
    for each_store in ranks.stores:
        each_store.release(registry._worker_rpc._owner, [each.key for each in stuck])
    clock.now = 2 * COMPLEX_RETRY_SECONDS
    assert [each.status for each in await registry.load(stuck)] == ["refused", "refused"]
    assert len(endless) == 4  # never again


def _abandoned():
    return REGISTRY.get_sample_value("toolgate_backend_abandoned_loads_total") or 0.0


# --- freed memory ---
@pytest.mark.parametrize("period", [0.0, 1_000.0])
async def test_memory_is_returned_after_grammars_were_evicted(registry, ranks, monkeypatch, period):
    returned = []
    monkeypatch.setattr(store, "RETURN_SECONDS", period)
    monkeypatch.setattr(store, "return_freed", lambda: returned.append(period))
    for at in range(6):  # the registry keeps two
        await registry.load([source(f"tool{at}")])
    for rank in ranks.stores:  # a further job of each thread runs after those before it
        await asyncio.gather(*(asyncio.to_thread(_wait, rank) for _ in range(store.THREADS)))
    assert bool(returned) == (period == 0)


def _wait(rank):
    done = Future()
    rank._threads.submit(lambda: done.set_result(None))
    done.result(timeout=30)
