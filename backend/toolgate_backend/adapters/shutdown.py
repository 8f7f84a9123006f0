"""A backend that ends finishes its responses first.

vLLM has `--shutdown-timeout` for that, but it refuses new requests only in the engine, which ends
them without output. Gateways would not learn that they should send them elsewhere.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


def before_shutdown(
    engine_client: Any, refuse_new: Callable[[], None], wait: Callable[[float], None]
) -> None:
    """Makes `shutdown` of vLLM's engine client (vllm.v1.engine.async_llm:AsyncLLM) call
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
