"""The import of vLLM and LiteLLM, in less time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Import large modules without garbage collections, which take a quarter of the time: each goes
    through a million objects, of which hardly any is garbage. Later collections exclude them, too.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
