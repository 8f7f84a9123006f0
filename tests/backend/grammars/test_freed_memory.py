"""Memory of released grammars goes back to the system, not too often."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

import pytest

from tests.support.grammars.registry_bench import WorkerRpc, source
from toolgate_backend.grammars import loader_threads, store
from toolgate_backend.grammars.registry import GrammarRegistry


@pytest.mark.parametrize("period", [0.0, 1_000.0])
async def test_memory_is_returned_after_grammars_were_evicted(
    registry: GrammarRegistry,
    ranks: WorkerRpc,
    monkeypatch: pytest.MonkeyPatch,
    period: float,
) -> None:
    returned: list[float] = []
    monkeypatch.setattr(loader_threads, "PERIOD", period)
    monkeypatch.setattr(store, "return_freed", lambda: returned.append(period))
    for at in range(6):  # the registry keeps two
        await registry.load([source(f"tool{at}")])
    for rank in ranks.stores:  # a further job of each thread runs after those before it
        await asyncio.gather(*(asyncio.to_thread(_wait, rank) for _ in range(store.THREADS)))
    assert bool(returned) == (period == 0)


def _wait(rank: store.GrammarStore) -> None:
    done: Future[None] = Future()
    rank._threads.submit(lambda: done.set_result(None))
    done.result(timeout=30)


def test_returning_memory_is_harmless() -> None:
    loader_threads.return_freed()
