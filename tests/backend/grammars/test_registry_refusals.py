"""What the registry refuses, and for how long."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from tests.support.grammars.registry_bench import Bench, Clock, WorkerRpc, source
from tests.support.loop_errors import no_loop_errors
from tests.support.schemas import hostile_schemas
from toolgate_backend.grammars.registry import COMPLEX_RETRY_SECONDS, GrammarRegistry
from toolgate_core.errors import (
    BackendUnavailable,
    SchemaNotEnforceable,
    SchemaTooComplex,
)
from toolgate_core.wire import GrammarSource, GrammarVerdict


async def test_a_refusal_is_cached(
    registry: GrammarRegistry, ranks: WorkerRpc, bench: Bench
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


@pytest.mark.parametrize("what", hostile_schemas.OVER_LIMITS)
async def test_a_schema_over_the_limits_is_refused_before_the_quarantine(
    registry: GrammarRegistry, ranks: WorkerRpc, bench: Bench, what: str
) -> None:
    big = GrammarSource.model_construct(
        key="k", name="f", parameters=hostile_schemas.OVER_LIMITS[what], examined=False, blob=None
    )
    good = source("a")
    refused, ready = await registry.load([big, good])
    assert (refused.status, refused.code) == ("refused", "schema_too_complex")
    assert ready.status == "ready"
    assert bench.examined == [good.key]


async def test_requests_with_a_schema_refused_as_too_complex_raise_schema_too_complex(
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


async def test_a_too_complex_schema_is_retried_after_the_delay(
    registry: GrammarRegistry, bench: Bench, clock: Clock
) -> None:
    tool = source("a")
    bench.too_dear = True
    assert (await registry.load([tool]))[0].status == "refused"
    bench.too_dear = False
    assert (await registry.load([tool]))[0].status == "refused"
    clock.now = COMPLEX_RETRY_SECONDS
    assert (await registry.load([tool]))[0].status == "ready"
    assert len(bench.examined) == 2


async def test_a_schema_is_not_evicted_during_its_retry(
    registry: GrammarRegistry, bench: Bench, clock: Clock
) -> None:
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


async def test_a_failure_of_a_rank_is_no_verdict_on_the_schema(
    registry: GrammarRegistry, ranks: WorkerRpc, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = source("a")

    def out_of_memory(*_: Any, **__: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(ranks.stores[1], "_load_or_compile", out_of_memory)
        with pytest.raises(BackendUnavailable, match="MemoryError") as failed:
            await registry.load([tool])
    assert (failed.value.status, failed.value.retry_after) == (503, 2)
    [verdict] = await registry.load([tool])
    assert verdict.status == "ready"
    assert all(store.get(tool.key) for store in ranks.stores)


@pytest.mark.exhaustive
async def test_a_load_that_fails_after_its_client_left_is_not_reported(
    registry: GrammarRegistry, bench: Bench
) -> None:
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
