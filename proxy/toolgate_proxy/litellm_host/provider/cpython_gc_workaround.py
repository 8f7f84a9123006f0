"""Keeps CPython before 3.12 from a crash in `ContextVar.set`.

There the collector may run while a variable is being set, wherever memory is asked for. A finalizer
that it calls may set a variable too: the values that the first one is being added to are then freed
under it, and the process ends with a segmentation fault (python/cpython#148891; from 3.12 on the
collector waits until an instruction is done). LiteLLM has such a finalizer,
`CustomStreamWrapper.__del__` (litellm/litellm_core_utils/streaming_handler.py), and each of its
streams is garbage that only the collector finds. What is held here is not freed.
"""

from __future__ import annotations

import gc
import sys
from collections import deque
from contextvars import Context, copy_context
from typing import Literal

NUMBER = 32
"""Of collections whose contexts are held. Setting a variable makes fewer objects, so that no more
collections can begin meanwhile."""

_held: deque[Context] = deque(maxlen=NUMBER)


def hold() -> None:
    """Once a process."""
    if sys.version_info < (3, 12):
        gc.callbacks.append(_hold)


def _hold(phase: Literal["start", "stop"], _: dict[str, int]) -> None:
    """The copy shares its values with the context that the collector interrupts."""
    if phase == "start":
        _held.append(copy_context())
