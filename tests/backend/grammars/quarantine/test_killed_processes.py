"""Processes of the quarantine that are killed by something other than a limit, while they compile:
the schema is compiled again, and is never refused for it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.backend.grammars.quarantine.test_service import (
    AMPLE,
    running,
    source,
    wait_for_end,
    workers_of,
)
from tests.support.grammars.registry_bench import PARTS, Clock, WorkerRpc, registry_over
from tests.support.processor_time import processor_time
from tests.support.schemas import hostile_schemas
from toolgate_backend.errors import QuarantineUnavailable
from toolgate_backend.grammars.quarantine.service import Quarantine
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core import grammar_key
from toolgate_core.errors import BackendUnavailable
from toolgate_core.wire import GrammarVerdict

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.exhaustive, pytest.mark.timed]

SLOW = source(
    hostile_schemas.of(**{q: hostile_schemas.MEMORY["properties"][q] for q in ("q0", "q1", "q2")}),
    "slow",
)
"""A valid schema that compiles for more than a second, also on a fast processor."""
WARM_UP = 50
"""Hundredths of a second of processor time. A new worker uses a fifth of it."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def quarantine(vocabulary: Vocabulary) -> AsyncIterator[Quarantine]:
    async with running(vocabulary, AMPLE, workers=1) as quarantine:
        yield quarantine


async def started(quarantine: Quarantine) -> asyncio.Task[GrammarVerdict]:
    """An examination of SLOW, while no other worker uses the processor."""
    await earlier_workers_ended(quarantine)
    return asyncio.create_task(quarantine.examine(SLOW))


async def earlier_workers_ended(quarantine: Quarantine) -> None:
    """A worker that sent its reply frees the memory of its grammar, for a tenth of a second, and
    would be taken for one that compiles."""
    async with asyncio.timeout(60):
        while True:
            workers = workers_of((await quarantine._fork_server()).pid)
            if all(processor_time(pid) < WARM_UP for pid in workers):
                return
            await asyncio.sleep(0.02)


async def compiling(quarantine: Quarantine) -> int:
    """The pid of the worker that compiles, which uses the processor, for longer than a new worker
    does before its first schema."""
    async with asyncio.timeout(60):
        while True:
            workers = workers_of((await quarantine._fork_server()).pid)
            before = {pid: processor_time(pid) for pid in workers}
            await asyncio.sleep(0.3)
            for pid, earlier in before.items():
                if (now := processor_time(pid)) - earlier >= 8 and now >= WARM_UP:
                    return pid


async def kill_compiling(quarantine: Quarantine, number: signal.Signals) -> None:
    pid = await compiling(quarantine)
    os.kill(pid, number)
    await asyncio.to_thread(wait_for_end, pid)


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        signal.SIGSEGV,
        *(
            pytest.param(number, marks=pytest.mark.slow)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGABRT)
        ),
    ],
)
async def test_the_schema_of_a_killed_worker_is_compiled_again(
    quarantine: Quarantine, number: signal.Signals
) -> None:
    examination = await started(quarantine)
    await kill_compiling(quarantine, number)
    assert (await examination).status == "ready"


async def test_the_schema_of_a_killed_fork_server_is_compiled_again(
    quarantine: Quarantine,
) -> None:
    examination = await started(quarantine)
    await compiling(quarantine)
    os.kill((await quarantine._fork_server()).pid, signal.SIGKILL)
    assert (await examination).status == "ready"


async def test_a_schema_whose_workers_are_killed_twice_has_no_verdict_and_is_logged(
    quarantine: Quarantine, caplog: pytest.LogCaptureFixture
) -> None:
    examination = await started(quarantine)
    for _ in range(2):
        await kill_compiling(quarantine, signal.SIGKILL)
    with pytest.raises(QuarantineUnavailable, match="killed by signal 9"):
        await examination
    assert "killed by signal 9" in caplog.text
    assert (await quarantine.examine(source({}, "next"))).status == "ready"


async def test_a_schema_that_crashes_two_workers_is_refused(quarantine: Quarantine) -> None:
    examination = await started(quarantine)
    for _ in range(2):
        await kill_compiling(quarantine, signal.SIGSEGV)
    verdict = await examination
    assert (verdict.status, verdict.code) == ("refused", "schema_too_complex")


@pytest.mark.slow
async def test_killed_workers_are_a_503_that_the_registry_does_not_keep(
    quarantine: Quarantine, vocabulary: Vocabulary
) -> None:
    examiner: Any = quarantine
    registry = registry_over(WorkerRpc(vocabulary), examiner, Clock())
    key = grammar_key.grammar_key(grammar_key.tool_hash(SLOW.name, SLOW.parameters), **PARTS)
    keyed = SLOW.model_copy(update={"key": key})
    await earlier_workers_ended(quarantine)
    loading = asyncio.create_task(registry.load([keyed]))
    for _ in range(2):
        await kill_compiling(quarantine, signal.SIGKILL)
    with pytest.raises(BackendUnavailable) as unavailable:
        await loading
    assert (unavailable.value.status, unavailable.value.retry_after) == (503, 2)
    [verdict] = await registry.load([keyed])
    assert verdict.status == "ready"
