"""What another backend has found out about a grammar is used."""

from __future__ import annotations

import pytest

from tests.support.grammars.registry_bench import Bench, Clock, WorkerRpc, registry_over, source
from toolgate_backend.grammars.registry import GrammarRegistry
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core.wire import GrammarVerdict, Hints, ResidualKeyword


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

    other = registry_over(WorkerRpc(vocabulary), bench, Clock())
    monkeypatch.setattr("toolgate_backend.grammars.engines.choice.prepare", None)  # nobody calls it
    known = {"examined": True, "rewritten": given.rewritten, "residual": given.residual}
    [verdict] = await other.load([tool.model_copy(update=known)])
    assert (verdict.status, verdict.residual) == ("ready", left)
    assert verdict.rewritten == given.rewritten
    assert bench.examined == [tool.key]


async def test_stored_measurements_are_reused_by_registry_and_workers(
    registry: GrammarRegistry, ranks: WorkerRpc
) -> None:
    """Backends that load a stored grammar reject too small budgets in the same way."""
    hints = Hints(names=("x",), texts=("1",))
    verdict = GrammarVerdict(
        key="", status="ready", least_tokens=17, growth=40, extra_tokens=64, hints=hints
    )
    tool = source("a").after(verdict)
    [loaded] = await registry.load([tool])
    assert (loaded.least_tokens, loaded.growth) == (17, 40)
    assert registry.least_tokens(tool.key) == 17
    held = [store.get(tool.key) for store in ranks.stores]
    measured = {(each.least_tokens, each.growth, each.extra_tokens, each.hints) for each in held}
    assert measured == {(17, 40, 64, hints)}


async def test_examined_schemas_skip_the_quarantine(
    registry: GrammarRegistry, bench: Bench
) -> None:
    new, seen = source("a"), source("b").model_copy(update={"examined": True})
    await registry.load([new, seen])
    assert bench.examined == [new.key]
