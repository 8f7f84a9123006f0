"""The replies of a quarantine worker to one job."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.schemas import hostile_schemas
from toolgate_backend.grammars.compiler import Compiler
from toolgate_backend.grammars.quarantine import protocol
from toolgate_backend.grammars.quarantine.protocol import (
    CompileJob,
    CompileLimits,
    add_measurements,
    examine,
)
from toolgate_core.schema.canonical import canonical_json

LIMITS = CompileLimits(cpu_seconds=1, wall_seconds=1, memory_bytes=2**30)


def job(schema: dict[str, Any]) -> CompileJob:
    return CompileJob(key="k", name="t", parameters=canonical_json(schema), limits=LIMITS)


def test_the_second_reply_contains_the_measurements(compiler: Compiler) -> None:
    wanted = job(hostile_schemas.of(a={"type": "integer"}))
    first, grammar = examine(compiler, wanted)
    assert first.measurements_follow
    assert grammar is not None
    second = add_measurements(compiler, wanted, first, grammar)
    assert not second.measurements_follow
    assert second.verdict is not None
    assert second.verdict.least_tokens


def test_a_refusal_has_no_second_reply(compiler: Compiler) -> None:
    reply, grammar = examine(compiler, job({"type": "object", "properties": 3}))
    assert not reply.measurements_follow
    assert grammar is None


def test_a_worker_that_runs_out_of_memory_while_measuring_is_replaced(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_memory(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(protocol, "measure", out_of_memory)
    wanted = job(hostile_schemas.of(a={"type": "integer"}))
    first, grammar = examine(compiler, wanted)
    assert grammar is not None
    assert not first.replace_worker
    second = add_measurements(compiler, wanted, first, grammar)
    assert second.replace_worker
    assert not second.measurements_follow
