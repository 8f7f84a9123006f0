"""The ends of a server's processes: RPCs end with the engines, a backend that ends finishes its
responses, and an engine ends with its server.

vLLM never completes the RPCs that were sent to an engine that has died. A request that waits for
one would keep its server from ending.

vLLM's `--shutdown-timeout` refuses new requests only in the engine, which ends them without output.
Gateways would not learn that they should send them elsewhere.

vLLM's engine and worker processes keep running, with their memory, if the process that started them
is killed. So each watches its parent and ends when the parent does.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from multiprocessing import connection
from typing import Any

from toolgate_core.errors import BackendUnavailable

from ..grammars.worker_rpc import Rpc

CHECK_SECONDS = 0.25
"""Time between two checks whether the engines are alive."""
DEADLINE_SECONDS = 60.0
"""Maximum time of an RPC. The engine answers RPCs between two steps, of which the longest is the
prefill of a long prompt."""


engine_died = threading.Event()
"""Set when a request or an RPC of this process has found its engine dead. The server then ends with
a status other than 0."""


def while_engines_live(
    require_all: Callable[[], None], rpc: Rpc, *, deadline: float = DEADLINE_SECONDS
) -> Rpc:
    """`rpc`, but it raises BackendUnavailable when `require_all` does, and after `deadline`
    seconds. A gateway then sends the request to another backend."""

    async def call(*args: Any, **kwargs: Any) -> Sequence[Any]:
        require_all()
        waiting = asyncio.ensure_future(rpc(*args, **kwargs))
        waiting.add_done_callback(_retrieve)
        ends = asyncio.get_running_loop().time() + deadline
        try:
            while True:
                done, _ = await asyncio.wait({waiting}, timeout=CHECK_SECONDS)
                if done:
                    return waiting.result()
                require_all()
                if asyncio.get_running_loop().time() >= ends:
                    raise BackendUnavailable(
                        f"The engine did not respond within {deadline:g} seconds. Send the "
                        "request again.",
                        retry_after=1,
                    )
        finally:
            waiting.cancel()

    return call


def _retrieve(rpc: asyncio.Future[Sequence[Any]]) -> None:
    """Mark the exception of an RPC as retrieved. One that was given up may still fail, which
    asyncio would report as an error."""
    if not rpc.cancelled():
        rpc.exception()


def before_shutdown(
    engine_client: Any, refuse_new: Callable[[], None], wait: Callable[[float], None]
) -> None:
    """Make `shutdown` of vLLM's engine client (vllm.v1.engine.async_llm:AsyncLLM) call
    `refuse_new`, and then `wait` with `timeout`, the seconds that active requests may take. Call it
    in the thread of the event loop: vLLM calls `shutdown` in another thread when it receives a
    signal, and in this one when nothing is left to wait for."""
    event_loop, shutdown = threading.get_ident(), engine_client.shutdown

    def finish_and_shut_down(timeout: float | None = None) -> None:
        refuse_new()
        if threading.get_ident() != event_loop:
            wait(timeout or 0.0)
        shutdown(timeout=timeout)

    engine_client.shutdown = finish_and_shut_down


_watching = threading.Event()


def end_with_parent() -> None:
    """Start the watch if this process is a child of a server. Does nothing in other processes, and
    when called again."""
    parent = multiprocessing.parent_process()
    if parent is None or _watching.is_set():
        return
    _watching.set()
    threading.Thread(
        target=_watch, args=(parent.sentinel,), name="toolgate-parent-watch", daemon=True
    ).start()


def _watch(sentinel: int) -> None:
    connection.wait([sentinel])
    # The process group stays: it may be shared with the operator's shell. A signal ends the process
    # although its main thread is inside native code.
    os.kill(os.getpid(), signal.SIGKILL)
