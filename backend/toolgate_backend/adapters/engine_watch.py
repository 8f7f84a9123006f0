"""The watch over a server's engines: an engine that does not respond for some seconds is lost.

With data parallel, an engine may be a process that the API process did not start, even on another
machine. vLLM does not notice that such a process hangs or that its machine is gone. Its requests
would wait forever.

An engine responds in the thread that receives its messages. Its main thread handles messages
between two steps only, and a step may take long.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any

from vllm.logger import init_logger
from vllm.v1.engine import EngineCoreRequestType
from vllm.v1.engine.core import EngineCoreProc

from toolgate_core.errors import BackendUnavailable
from toolgate_core.host_probe import optional

from .lifetimes import engine_died

logger = init_logger(__name__)

INTERVAL_SECONDS = 2.0
LIMIT_SECONDS = 10
PING = "toolgate_ping"


# --- in an engine's process ---


def install() -> None:
    """Make engines respond to `PING`. Does nothing when called again."""
    if optional(EngineCoreProc, PING):
        return
    own_process = EngineCoreProc.process_input_sockets

    @functools.wraps(own_process)
    def process_input_sockets(self: Any, *args: Any, **kwargs: Any) -> None:
        put = self.input_queue.put_nowait

        def respond_or_put(message: tuple[Any, Any]) -> None:
            kind, request = message
            if kind == EngineCoreRequestType.UTILITY and request[2] == PING:
                self._handle_client_request(kind, request)
            else:
                put(message)

        self.input_queue.put_nowait = respond_or_put
        own_process(self, *args, **kwargs)

    EngineCoreProc.process_input_sockets = process_input_sockets
    setattr(EngineCoreProc, PING, lambda engine: None)


# --- in an API process ---


class EngineWatch:
    """Watches the engines of vLLM's engine client (vllm.v1.engine.async_llm:AsyncLLM)."""

    def __init__(
        self, engine_client: Any, *, interval: float = INTERVAL_SECONDS, limit: int = LIMIT_SECONDS
    ) -> None:
        self._client = engine_client
        self._interval = interval
        self._limit = limit
        self._lost: set[int] = set()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start to watch, and make vLLM's `check_health`, which serves `/health`, report it."""

        async def check_health() -> None:
            self.require_all()

        self._client.check_health = check_health
        engines = self._client.engine_core.core_engines
        self._tasks = [asyncio.create_task(self._watch(engine)) for engine in engines]

    def require_all(self) -> None:
        """Raise BackendUnavailable if an engine is lost or dead. A gateway then sends the request
        to another backend."""
        if self._client.errored:
            engine_died.set()
            raise BackendUnavailable(
                "vLLM's engine died. Send the request again after the backend has restarted.",
                retry_after=1,
            ) from self._client.dead_error
        if self._lost:
            raise BackendUnavailable(
                f"Engine {min(self._lost)} of this model's backend does not respond. Send the "
                "request again.",
                retry_after=self._limit,
            )

    async def _watch(self, engine: bytes) -> None:
        """`engine`: its address in vLLM's client, which is its number."""
        number = int.from_bytes(engine, "little")
        while not self._client.errored:
            if await self._responds(engine):
                if number in self._lost:
                    logger.warning("Toolgate: engine %d responds again.", number)
                self._lost.discard(number)
            else:
                if number not in self._lost:
                    logger.error(
                        "Toolgate: engine %d has not responded for %d seconds. The backend refuses "
                        "requests until the engine responds. If the engine's process or machine is "
                        "gone, restart the backend.",
                        number,
                        self._limit,
                    )
                self._lost.add(number)
                self._end_requests(engine)
            await asyncio.sleep(self._interval)

    async def _responds(self, engine: bytes) -> bool:
        core = self._client.engine_core
        response = asyncio.ensure_future(core._call_utility_async(PING, engine=engine))
        response.add_done_callback(lambda done: done.cancelled() or done.exception())
        # Second by second, because a time in which this process itself did not run does not count.
        for _ in range(self._limit):
            await asyncio.wait({response}, timeout=1)
            if response.done():
                return True  # an error is a response, too
        response.cancel()
        return False

    def _end_requests(self, engine: bytes) -> None:
        """End the requests of an engine with an error. vLLM aborts them, in case that the engine
        responds again."""
        # Only a client of several engines has a table of requests.
        engine_of = optional(self._client.engine_core, "reqs_in_flight")
        for request_id, state in self._client.output_processor.request_states.items():
            if engine_of is None or engine_of.get(request_id) == engine:
                state.queue.put(TimeoutError("the engine does not respond"))
