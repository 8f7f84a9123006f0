"""Python's garbage collector while large modules are imported."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector. vLLM and LiteLLM import in about 25 % less time without it: the
    objects of a module are no garbage, and each collection goes through all that exist so far."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
