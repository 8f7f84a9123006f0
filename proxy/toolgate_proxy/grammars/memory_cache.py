"""What a process remembers of one backend's grammars: the first tier, bounded and in memory."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from toolgate_core import wire

MAX_READY = 100_000
"""Keys remembered for one backend. Forgetting one costs a load that the backend answers at once."""
MAX_REFUSED = 10_000


class MemoryCache:
    """Keys that the backend holds, and refusals, which are believed for a while."""

    def __init__(
        self,
        ttl: Callable[[wire.GrammarVerdict], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`ttl`: seconds for which a refusal is believed."""
        self._ttl = ttl
        self._clock = clock
        self._ready: OrderedDict[str, tuple[wire.ResidualKeyword, ...]] = OrderedDict()
        self._refused: OrderedDict[str, tuple[float, wire.GrammarVerdict]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ready)

    def ready(self, key: str) -> bool:
        if key not in self._ready:
            return False
        self._ready.move_to_end(key)
        return True

    def residual(self, key: str) -> tuple[wire.ResidualKeyword, ...]:
        """What the masks of a grammar that is held leave open."""
        return self._ready.get(key, ())

    def refused(self, key: str) -> wire.GrammarVerdict | None:
        if key not in self._refused:
            return None
        until, verdict = self._refused[key]
        if self._clock() < until:
            return verdict
        del self._refused[key]
        return None

    def remember(self, verdict: wire.GrammarVerdict) -> None:
        if verdict.status == "ready":
            self._ready[verdict.key] = verdict.residual
            if len(self._ready) > MAX_READY:
                self._ready.popitem(last=False)
            return
        self._refused[verdict.key] = (self._clock() + self._ttl(verdict), verdict)
        if len(self._refused) > MAX_REFUSED:
            self._refused.popitem(last=False)

    def forget(self, key: str) -> None:
        self._ready.pop(key, None)
