"""Memory of one process about grammars: the verdicts of backends, the first tier."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from toolgate_core import wire
from toolgate_core.errors import SchemaTooComplex

GRAMMAR_TTL = 7 * 86_400
"""Seconds after its last use. A verdict that is not there is asked for again."""
REFUSAL_TTL = 600
"""Seconds for which a refusal is believed. A new version of the backend may accept it."""
LIMIT_TTL = 60
"""The same, where the schema exceeded the limits on compile time or memory: it may compile on a
less busy machine."""
MAX_READY = 100_000
"""Maximum number of enforceable grammars."""
MAX_REFUSED = 10_000


def verdict_ttl(verdict: wire.GrammarVerdict) -> float:
    """Return the seconds for which a backend's verdict on a grammar is believed."""
    if verdict.status == "ready":
        return GRAMMAR_TTL
    return LIMIT_TTL if verdict.code == SchemaTooComplex.code else REFUSAL_TTL


class MemoryCache:
    """Keys of enforceable grammars, and recent refusals."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ready: OrderedDict[str, wire.GrammarVerdict] = OrderedDict()
        self._refused: OrderedDict[str, tuple[float, wire.GrammarVerdict]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ready)

    def verdict(self, key: str) -> wire.GrammarVerdict | None:
        """Return what is known of the verdict: its status, its residual keywords, and the reason of
        a refusal; None if nothing is."""
        if key in self._ready:
            self._ready.move_to_end(key)
            return self._ready[key]
        if key not in self._refused:
            return None
        until, verdict = self._refused[key]
        if self._clock() < until:
            return verdict
        del self._refused[key]
        return None

    def remember(self, verdict: wire.GrammarVerdict) -> None:
        if verdict.status == "ready":
            self._ready[verdict.key] = wire.GrammarVerdict(
                key=verdict.key, status="ready", residual=verdict.residual
            )
            if len(self._ready) > MAX_READY:
                self._ready.popitem(last=False)
            return
        self._ready.pop(verdict.key, None)
        self._refused[verdict.key] = (self._clock() + verdict_ttl(verdict), verdict)
        if len(self._refused) > MAX_REFUSED:
            self._refused.popitem(last=False)
