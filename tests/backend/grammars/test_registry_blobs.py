"""The registry of a fleet: what another backend has examined, and compiled."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.grammars.registry_bench import Bench, Clock, WorkerRpc, registry_over, source
from toolgate_backend.grammars import metrics
from toolgate_backend.grammars.registry import GrammarRegistry
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core.wire import GrammarVerdict, ResidualKeyword


def counted(counter: Any) -> float:
    return float(counter._value.get())


async def test_blobs_are_returned_on_request_and_loaded_by_another_registry(
    registry: GrammarRegistry, ranks: WorkerRpc, vocabulary: Vocabulary, bench: Bench
) -> None:
    tool = source("a")
    [without] = await registry.load([tool])
    [given] = await registry.load([tool], want_blobs=True)
    assert without.blob is None
    assert given.blob is not None

    fresh = WorkerRpc(vocabulary)
    other = registry_over(fresh, bench, Clock(), blob_cache_bytes=0)
    before = counted(metrics.GRAMMAR_LOADS.labels("blob"))
    known = tool.model_copy(update={"examined": True, "blob": given.blob})
    [verdict] = await other.load([known], want_blobs=True)
    assert (verdict.status, verdict.compile_ms) == ("ready", None)
    assert verdict.load_ms is not None
    assert verdict.blob is None  # it keeps none
    assert counted(metrics.GRAMMAR_LOADS.labels("blob")) == before + 1


async def test_a_rewritten_schema_is_reused_by_another_registry(
    registry: GrammarRegistry, vocabulary: Vocabulary, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the quarantine rewrites schemas; workers get the stored result."""
    tool = source("a", type="array", items={"type": "string"}, uniqueItems=True)
    left = (ResidualKeyword(pointer="/properties/x/uniqueItems", keyword="uniqueItems"),)
    [given] = await registry.load([tool])
    assert given.residual == left
    assert given.rewritten is not None
    assert "uniqueItems" not in given.rewritten

    other = registry_over(WorkerRpc(vocabulary), bench, Clock(), blob_cache_bytes=0)
    monkeypatch.setattr("toolgate_backend.grammars.engines.choice.prepare", None)  # nobody calls it
    known = {"examined": True, "rewritten": given.rewritten, "residual": given.residual}
    [verdict] = await other.load([tool.model_copy(update=known)])
    assert (verdict.status, verdict.residual) == ("ready", left)
    assert verdict.rewritten == given.rewritten
    assert bench.examined == [tool.key]


async def test_an_invalid_blob_is_counted_and_the_grammar_is_compiled(
    registry: GrammarRegistry, ranks: WorkerRpc
) -> None:
    before = counted(metrics.BLOB_REJECTS)
    tool = source("a").model_copy(update={"examined": True, "blob": "Z2FyYmFnZQ=="})
    [verdict] = await registry.load([tool])
    assert verdict.status == "ready"
    assert verdict.compile_ms is not None
    assert all(store.get(tool.key) for store in ranks.stores)
    assert counted(metrics.BLOB_REJECTS) == before + 1


async def test_stored_measurements_are_reused_by_registry_and_workers(
    registry: GrammarRegistry, ranks: WorkerRpc
) -> None:
    """Backends that load a stored grammar reject too small budgets in the same way."""
    verdict = GrammarVerdict(key="", status="ready", least_tokens=17, extra_tokens=64)
    tool = source("a").after(verdict)
    [loaded] = await registry.load([tool])
    assert loaded.least_tokens == 17
    assert registry.least_tokens(tool.key) == 17
    held = [store.get(tool.key) for store in ranks.stores]
    assert {(each.least_tokens, each.extra_tokens) for each in held} == {(17, 64)}


async def test_examined_schemas_skip_the_quarantine(
    registry: GrammarRegistry, bench: Bench
) -> None:
    new, seen = source("a"), source("b").model_copy(update={"examined": True})
    await registry.load([new, seen])
    assert bench.examined == [new.key]
