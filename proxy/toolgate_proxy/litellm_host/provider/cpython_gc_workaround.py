"""Workaround for a crash of CPython before 3.12 in `ContextVar.set`.

In those versions the garbage collector may run while a context variable is being set. If a
finalizer sets a variable too, the mapping that is being changed is freed, and the process ends with
a segmentation fault (python/cpython#148891). From 3.12 on the collector runs only between
instructions. LiteLLM has such a finalizer: `CustomStreamWrapper.__del__`
(litellm/litellm_core_utils/streaming_handler.py). Only the collector frees LiteLLM's streams. This
module keeps the contexts alive, so their mappings are not freed.
"""

from __future__ import annotations

import gc
import sys
from collections import deque
from contextvars import Context, copy_context
from typing import Literal

NUMBER = 32
"""Number of collections whose contexts are kept. Setting a variable allocates too few objects to
start more collections."""

_held: deque[Context] = deque(maxlen=NUMBER)


def hold() -> None:
    """Install the workaround. Call it once per process."""
    if sys.version_info < (3, 12):
        gc.callbacks.append(_hold)


def _hold(phase: Literal["start", "stop"], _: dict[str, int]) -> None:
    """Keep a copy of the interrupted context, which shares its mapping."""
    if phase == "start":
        _held.append(copy_context())
