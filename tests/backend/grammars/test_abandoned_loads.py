"""Loads that do not end in an engine process, although the schema passed the quarantine."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from prometheus_client import REGISTRY

from tests.support.grammars.registry_bench import Bench, Clock, WorkerRpc, registry_over, source
from toolgate_backend.grammars.loader_threads import LoadLimits
from toolgate_backend.grammars.registry import COMPLEX_RETRY_SECONDS
from toolgate_backend.grammars.store import GrammarStore
from toolgate_backend.tokens.vocabulary import Vocabulary

ENDLESS = "endless"
"""A tool of this name has a load that does not end."""


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of the endless loads that were begun."""
    begun: list[str] = []
    load = GrammarStore._load_or_compile

    def load_or_run_on(self: GrammarStore, key: str, *, name: str, **source: Any) -> Any:
        if name != ENDLESS:
            return load(self, key, name=name, **source)
        begun.append(key)
        while True:
            pass

    monkeypatch.setattr(GrammarStore, "_load_or_compile", load_or_run_on)
    return begun


async def test_a_load_that_does_not_end_is_refused_and_others_load(
    vocabulary: Vocabulary,
    bench: Bench,
    clock: Clock,
    endless: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    ranks = WorkerRpc(vocabulary, LoadLimits(cpu_seconds=0.3, wall_seconds=300))
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
    for store in ranks.stores:
        store.release(registry._worker_rpc._owner, [each.key for each in stuck])
    clock.now = 2 * COMPLEX_RETRY_SECONDS
    assert [each.status for each in await registry.load(stuck)] == ["refused", "refused"]
    assert len(endless) == 4  # never again


def _abandoned() -> float:
    return REGISTRY.get_sample_value("toolgate_backend_abandoned_loads_total") or 0.0
