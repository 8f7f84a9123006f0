"""The registry over a real store, reached as vLLM would: one answer a rank."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.backend import hostile
from toolgate_backend import metrics
from toolgate_backend.errors import QuarantineDown
from toolgate_backend.grammars import ranks as grammar_ranks
from toolgate_backend.grammars import store
from toolgate_backend.grammars.compiler import Compiler
from toolgate_backend.grammars.registry import LIMIT_SECONDS, GrammarRegistry
from toolgate_backend.grammars.store import GrammarStore, grammar_format
from toolgate_backend.vocabulary import Vocabulary
from toolgate_core import keys
from toolgate_core.errors import (
    BackendUnavailable,
    GrammarUnknown,
    InvalidRequest,
    InvalidTools,
    SchemaNotEnforceable,
    SchemaTooComplex,
)
from toolgate_core.limits import SchemaLimits
from toolgate_core.wire import GrammarSource, GrammarVerdict, ResidualKeyword


class Ranks:
    """Two ranks' stores behind the shape of `collective_rpc`."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.stores = [GrammarStore(vocabulary), GrammarStore(vocabulary)]
        self.calls: list[str] = []

    async def __call__(self, method: str, args: Sequence[Any] = ()) -> list[Any]:
        self.calls.append(method)
        answers = []
        for rank in self.stores:
            store.install(rank)
            answers.append(store.WORKER_METHODS[method](None, *args))
        return answers


@pytest.fixture
def ranks(vocabulary: Vocabulary) -> Ranks:
    return Ranks(vocabulary)


PARTS = {"dialect": "qwen3", "tokenizer": "t", "grammar_format": grammar_format()}


class Bench:
    """In the quarantine's place: what was examined there, and verdicts as it would give them."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._compiler = Compiler.of(vocabulary, cache_bytes=2**26)
        self.examined: list[str] = []
        self.down = False
        self.too_dear = False
        self.held = asyncio.Event()
        self.held.set()

    async def examine(self, source: GrammarSource) -> GrammarVerdict:
        self.examined.append(source.key)
        await self.held.wait()
        if self.down:
            raise QuarantineDown("down")
        if self.too_dear:
            return GrammarVerdict(
                key=source.key, status="refused", reason="slow", code=SchemaTooComplex.code
            )
        parameters = keys.canonical_json(source.parameters)
        outcome = self._compiler.compile(source.key, source.name, parameters)
        packed = outcome.grammar and self._compiler.pack(source.key, outcome.grammar)
        return outcome.verdict.model_copy(update={"blob": packed})


@pytest.fixture
def bench(vocabulary: Vocabulary) -> Bench:
    return Bench(vocabulary)


class Clock:
    """Seconds, moved by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def registry(ranks: Ranks, bench: Bench, clock: Clock) -> GrammarRegistry:
    return GrammarRegistry(
        grammar_ranks.Ranks(ranks),
        bench,
        **PARTS,
        capacity=2,
        schema_limits=SchemaLimits(),
        blob_cache_bytes=2**20,
        clock=clock,
    )


def source(name: str, **schema: Any) -> GrammarSource:
    parameters = keys.canonical_parameters({"properties": {"x": schema or {"type": "null"}}})
    key = keys.grammar_key(keys.tool_hash(name, parameters), **PARTS)
    return GrammarSource(key=key, name=name, parameters=parameters)


async def test_loaded_on_every_rank_and_pinned_while_used(
    registry: GrammarRegistry, ranks: Ranks
) -> None:
    tool = source("a")
    [verdict] = await registry.load([tool])
    assert (verdict.status, verdict.engine) == ("ready", "xgrammar")
    assert all(store.get(tool.key) for store in ranks.stores)
    with registry.pin([tool.key]):
        assert registry.pinned == 1
    assert registry.pinned == 0


async def test_an_unknown_key_is_named(registry: GrammarRegistry) -> None:
    with pytest.raises(GrammarUnknown) as unknown, registry.pin(["nope"]):
        pass
    assert unknown.value.keys == ("nope",)


async def test_many_who_ask_at_once_wait_on_one_compile(
    registry: GrammarRegistry, ranks: Ranks
) -> None:
    await asyncio.gather(*(registry.load([source("a")]) for _ in range(8)))
    assert ranks.calls.count("toolgate_load") == 1


async def test_a_whole_set_takes_one_rpc(registry: GrammarRegistry, ranks: Ranks) -> None:
    many = [source(f"tool{i}").model_copy(update={"examined": True}) for i in range(60)]
    assert all(verdict.status == "ready" for verdict in await registry.load(many))
    assert ranks.calls.count("toolgate_load") == 1


async def test_who_asked_first_may_go_away(registry: GrammarRegistry) -> None:
    first = asyncio.create_task(registry.load([source("a")]))
    await asyncio.sleep(0)
    second = asyncio.create_task(registry.load([source("a")]))
    await asyncio.sleep(0)
    first.cancel()
    [verdict] = await second
    assert verdict.status == "ready"


async def test_the_least_used_leaves_the_ranks_and_a_pinned_one_stays(
    registry: GrammarRegistry, ranks: Ranks
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


async def test_a_refusal_is_remembered(
    registry: GrammarRegistry, ranks: Ranks, bench: Bench
) -> None:
    bad = source("a", type="strange")
    for _ in range(2):
        [verdict] = await registry.load([bad])
        assert (verdict.status, verdict.pointer) == ("refused", "/properties/x/type")
        assert verdict.code == "schema_not_enforceable"
    assert bench.examined == [bad.key]
    assert not ranks.calls  # it never came near the engine
    with pytest.raises(SchemaNotEnforceable), registry.pin([bad.key]):
        registry.require_ready([bad.key])


async def test_a_key_that_is_not_its_contents_is_refused(registry: GrammarRegistry) -> None:
    good = source("a")
    forged = GrammarSource(key=good.key, name="a", parameters={"type": "object"})
    with pytest.raises(InvalidRequest):
        await registry.load([forged])


async def test_what_the_quarantine_measured_holds_wherever_a_grammar_comes_from(
    registry: GrammarRegistry, ranks: Ranks
) -> None:
    """A budget too small for a call is refused alike by backends that load it from a record."""
    verdict = GrammarVerdict(key="", status="ready", least_tokens=17, growth=40)
    tool = source("a").after(verdict)
    [loaded] = await registry.load([tool])
    assert (loaded.least_tokens, loaded.growth) == (17, 40)
    assert registry.least_tokens(tool.key) == 17
    held = [store.get(tool.key) for store in ranks.stores]
    assert {(grammar.least_tokens, grammar.growth) for grammar in held} == {(17, 40)}


async def test_what_the_fleet_has_examined_goes_straight_to_the_workers(
    registry: GrammarRegistry, bench: Bench
) -> None:
    new, seen = source("a"), source("b").model_copy(update={"examined": True})
    await registry.load([new, seen])
    assert bench.examined == [new.key]


async def test_a_slow_neighbour_holds_nobody_up(registry: GrammarRegistry, bench: Bench) -> None:
    bench.held.clear()
    slow = asyncio.create_task(registry.load([source("slow"), source("a")]))
    await asyncio.sleep(0)
    [verdict] = await registry.load([source("b").model_copy(update={"examined": True})])
    assert verdict.status == "ready"
    bench.held.set()
    assert [v.status for v in await slow] == ["ready", "ready"]


async def test_a_quarantine_that_is_down_is_no_verdict(
    registry: GrammarRegistry, bench: Bench
) -> None:
    bench.down = True
    with pytest.raises(BackendUnavailable):
        await registry.load([source("a")])
    bench.down = False
    [verdict] = await registry.load([source("a")])
    assert verdict.status == "ready"


def counted(counter: Any) -> float:
    return float(counter._value.get())


async def test_blobs_are_given_out_on_request_and_loaded_where_they_come_back(
    registry: GrammarRegistry, ranks: Ranks, vocabulary: Vocabulary, bench: Bench
) -> None:
    tool = source("a")
    [without] = await registry.load([tool])
    [given] = await registry.load([tool], want_blobs=True)
    assert without.blob is None
    assert given.blob is not None

    fresh = Ranks(vocabulary)
    other = GrammarRegistry(
        grammar_ranks.Ranks(fresh),
        bench,
        **PARTS,
        capacity=2,
        schema_limits=SchemaLimits(),
        blob_cache_bytes=0,
    )
    before = counted(metrics.GRAMMAR_LOADS.labels("blob"))
    known = tool.model_copy(update={"examined": True, "blob": given.blob})
    [verdict] = await other.load([known], want_blobs=True)
    assert (verdict.status, verdict.compile_ms) == ("ready", None)
    assert verdict.load_ms is not None
    assert verdict.blob is None  # it keeps none
    assert counted(metrics.GRAMMAR_LOADS.labels("blob")) == before + 1


async def test_what_a_schema_was_rewritten_to_comes_back_from_the_fleet(
    registry: GrammarRegistry, vocabulary: Vocabulary, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rewriting is for the quarantine: the workers are told what came of it, now and later."""
    tool = source("a", type="array", items={"type": "string"}, uniqueItems=True)
    left = (ResidualKeyword(pointer="/properties/x/uniqueItems", keyword="uniqueItems"),)
    [given] = await registry.load([tool])
    assert given.residual == left
    assert given.rewritten is not None
    assert "uniqueItems" not in given.rewritten

    other = GrammarRegistry(
        grammar_ranks.Ranks(Ranks(vocabulary)),
        bench,
        **PARTS,
        capacity=2,
        schema_limits=SchemaLimits(),
        blob_cache_bytes=0,
    )
    monkeypatch.setattr("toolgate_backend.grammars.choose.prepared", None)  # nobody calls it
    known = {"examined": True, "rewritten": given.rewritten, "residual": given.residual}
    [verdict] = await other.load([tool.model_copy(update=known)])
    assert (verdict.status, verdict.residual) == ("ready", left)
    assert verdict.rewritten == given.rewritten
    assert bench.examined == [tool.key]


async def test_a_blob_that_is_garbage_is_compiled_instead_and_counted(
    registry: GrammarRegistry, ranks: Ranks
) -> None:
    before = counted(metrics.BLOB_REJECTS)
    tool = source("a").model_copy(update={"examined": True, "blob": "Z2FyYmFnZQ=="})
    [verdict] = await registry.load([tool])
    assert verdict.status == "ready"
    assert verdict.compile_ms is not None
    assert all(store.get(tool.key) for store in ranks.stores)
    assert counted(metrics.BLOB_REJECTS) == before + 1


@pytest.mark.parametrize("what", hostile.OVER_LIMITS)
async def test_a_schema_over_its_limits_is_refused_before_anything_else_sees_it(
    registry: GrammarRegistry, ranks: Ranks, bench: Bench, what: str
) -> None:
    big = GrammarSource.model_construct(
        key="k", name="f", parameters=hostile.OVER_LIMITS[what], examined=False, blob=None
    )
    good = source("a")
    refused, ready = await registry.load([big, good])
    assert (refused.status, refused.code) == ("refused", "schema_too_complex")
    assert ready.status == "ready"
    assert bench.examined == [good.key]


async def test_nan_is_no_json(registry: GrammarRegistry) -> None:
    with pytest.raises(InvalidTools):
        await registry.load([GrammarSource(key="k", name="f", parameters={"const": float("nan")})])


async def test_a_request_that_names_a_schema_refused_as_too_complex_is_told_so(
    registry: GrammarRegistry, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def examine(source: GrammarSource) -> GrammarVerdict:
        return GrammarVerdict(
            key=source.key, status="refused", reason="too slow", code="schema_too_complex"
        )

    monkeypatch.setattr(bench, "examine", examine)
    tool = source("a")
    await registry.load([tool])
    with pytest.raises(SchemaTooComplex), registry.pin([tool.key]):
        registry.require_ready([tool.key])


async def test_what_cost_too_much_is_tried_again_after_a_while(
    registry: GrammarRegistry, bench: Bench, clock: Clock
) -> None:
    tool = source("a")
    bench.too_dear = True
    assert (await registry.load([tool]))[0].status == "refused"
    bench.too_dear = False
    assert (await registry.load([tool]))[0].status == "refused"
    clock.now = LIMIT_SECONDS
    assert (await registry.load([tool]))[0].status == "ready"
    assert len(bench.examined) == 2


async def test_what_is_tried_again_is_not_evicted_meanwhile(
    registry: GrammarRegistry, bench: Bench, clock: Clock
) -> None:
    """Its old verdict is the least used there is; released now, no rank would ever give another."""
    tool, others = source("a"), [source(name) for name in "bcdefgh"]
    bench.too_dear = True
    await registry.load([tool])
    bench.too_dear, clock.now = False, LIMIT_SECONDS
    bench.held.clear()
    gone = asyncio.create_task(registry.load([tool]))
    await asyncio.sleep(0)
    gone.cancel()
    bench.held.set()
    for other in others:
        await registry.load([other])
    async with asyncio.timeout(20):
        assert [v.status for v in await registry.load([tool])] == ["ready"]


async def test_so_is_what_was_too_much_for_a_rank(
    registry: GrammarRegistry, ranks: Ranks, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = source("a")

    def out_of_memory(*_: Any, **__: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(ranks.stores[1], "_made", out_of_memory)
        [verdict] = await registry.load([tool])
    assert (verdict.status, verdict.code) == ("refused", SchemaTooComplex.code)
    clock.now = LIMIT_SECONDS
    [verdict] = await registry.load([tool])
    assert verdict.status == "ready"
    assert all(store.get(tool.key) for store in ranks.stores)
