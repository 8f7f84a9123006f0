"""llguidance's matchers of one grammar, made by copying."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import llguidance

from ...errors import BackendError

PAUSE_SECONDS = 0.005
"""A grammar that takes longer to compile is compiled in another thread: the engine's next step,
and with it all sequences, would wait for it."""
_threads = ThreadPoolExecutor(1, thread_name_prefix="toolgate-renewal")


class FreshMatcher:
    """A matcher before its first token, of which copies are made.

    Copies share their lexer. One that has exceeded a limit refuses everything from then on, in
    copies that are made later, too."""

    def __init__(self, make: Callable[[], llguidance.LLMatcher]) -> None:
        self._make = make
        began = time.perf_counter()
        self._matcher = make()
        self._takes_long = time.perf_counter() - began > PAUSE_SECONDS
        self._renewal: Future[llguidance.LLMatcher] | None = None

    def copy(self) -> llguidance.LLMatcher:
        """Raises BackendError while the grammar is compiled again."""
        renewal = self._renewal
        if renewal is not None:
            if not renewal.done():
                raise BackendError(
                    "A text has exceeded a limit of the grammar's engine, so the grammar is being "
                    "compiled again. Send the request again."
                )
            self._matcher, self._renewal = renewal.result(), None
        return self._matcher.deep_copy()

    def renew(self) -> None:
        """Make later copies with another lexer: a copy has exceeded a limit."""
        if self._renewal is not None:
            return
        if self._takes_long:
            self._renewal = _threads.submit(self._make)
        else:
            self._matcher = self._make()
