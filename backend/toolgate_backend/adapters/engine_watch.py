"""RPCs to the engine that end when the engine does.

vLLM never completes the RPCs that were sent to an engine that has died. A request that waits for
one would keep its server from ending.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any, Protocol

from toolgate_core.errors import BackendUnavailable

from ..grammars.worker_rpc import Rpc

CHECK_SECONDS = 0.25
"""Time between two checks whether the engine is alive."""
DEADLINE_SECONDS = 60.0
"""Maximum time of an RPC. The engine answers RPCs between two steps, of which the longest is the
prefill of a long prompt."""


engine_died = threading.Event()
"""Set when a request or an RPC of this process has found its engine dead. The server then ends with
a status other than 0."""


class EngineClient(Protocol):
    """The part of vLLM's engine client that tells whether the engine is alive."""

    @property
    def errored(self) -> bool: ...

    @property
    def dead_error(self) -> BaseException: ...


def while_engine_lives(
    engine: EngineClient, rpc: Rpc, *, deadline: float = DEADLINE_SECONDS
) -> Rpc:
    """`rpc`, but it raises BackendUnavailable if the engine dies, and after `deadline` seconds. A
    gateway then sends the request to another backend."""

    async def call(*args: Any, **kwargs: Any) -> Sequence[Any]:
        if engine.errored:
            raise _dead(engine)
        waiting = asyncio.ensure_future(rpc(*args, **kwargs))
        waiting.add_done_callback(_retrieve)
        ends = asyncio.get_running_loop().time() + deadline
        try:
            while True:
                done, _ = await asyncio.wait({waiting}, timeout=CHECK_SECONDS)
                if done:
                    return waiting.result()
                if engine.errored:
                    raise _dead(engine)
                if asyncio.get_running_loop().time() >= ends:
                    raise BackendUnavailable(
                        f"The engine did not respond within {deadline:g} seconds. Retry the "
                        "request.",
                        retry_after=1,
                    )
        finally:
            waiting.cancel()

    return call


def _retrieve(rpc: asyncio.Future[Sequence[Any]]) -> None:
    """Marks the exception of an RPC as retrieved. One that was given up may still fail, which
    asyncio would report as an error."""
    if not rpc.cancelled():
        rpc.exception()


def _dead(engine: EngineClient) -> BackendUnavailable:
    engine_died.set()
    error = BackendUnavailable(
        "vLLM's engine died. Retry the request after the backend has restarted.", retry_after=1
    )
    error.__cause__ = engine.dead_error
    return error
