from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from vllm.v1.engine.exceptions import EngineDeadError

from tests.support.loop_errors import no_loop_errors
from toolgate_backend.adapters.lifetimes import while_engine_lives
from toolgate_core.errors import BackendUnavailable


class Engine:
    errored = False
    dead_error = EngineDeadError()


async def never(*args: Any, **kwargs: Any) -> Sequence[Any]:
    await asyncio.Event().wait()
    return ()


async def test_an_rpc_fails_when_the_engine_dies() -> None:
    engine = Engine()
    waiting = asyncio.create_task(while_engine_lives(engine, never)("load"))
    await asyncio.sleep(0.05)
    engine.errored = True
    async with asyncio.timeout(10):
        with pytest.raises(BackendUnavailable, match="engine died"):
            await waiting
        with pytest.raises(BackendUnavailable, match="engine died"):
            await while_engine_lives(engine, never)("load")


async def test_an_rpc_has_a_deadline() -> None:
    with pytest.raises(BackendUnavailable, match="did not respond within"):
        await while_engine_lives(Engine(), never, deadline=0.1)("load")


async def test_an_rpc_that_fails_after_its_deadline_is_not_reported() -> None:
    async def late(*args: Any, **kwargs: Any) -> Sequence[Any]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise EngineDeadError from None
        return ()

    async with no_loop_errors():
        with pytest.raises(BackendUnavailable):
            await while_engine_lives(Engine(), late, deadline=0.1)("load")


async def test_results_and_errors_are_passed_on() -> None:
    async def rpc(method: str, args: tuple[int, ...] = ()) -> Sequence[Any]:
        if method == "fail":
            raise ValueError(args)
        return [method, *args]

    call = while_engine_lives(Engine(), rpc)
    assert await call("load", args=(1, 2)) == ["load", 1, 2]
    with pytest.raises(ValueError, match="3"):
        await call("fail", args=(3,))
