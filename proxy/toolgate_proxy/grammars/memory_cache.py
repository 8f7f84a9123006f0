"""Memory of one process about grammars: the verdicts of backends."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from toolgate_core import wire
from toolgate_core.errors import SchemaTooComplex

GRAMMAR_TTL = 7 * 86_400
"""Seconds for which a grammar is known to be enforceable. A verdict that is not known is asked for
with the next request."""
REFUSAL_TTL = 600
"""Seconds for which a refusal is believed. A new version of the backend may accept it."""
LIMIT_TTL = 60
"""The same, where the schema exceeded the limits on compile time or memory: it may compile on a
less busy machine."""
MAX_VERDICTS = 100_000


def verdict_ttl(verdict: wire.GrammarVerdict) -> float:
    """Return the seconds for which a backend's verdict on a grammar is believed."""
    if verdict.status == "ready":
        return GRAMMAR_TTL
    return LIMIT_TTL if verdict.code == SchemaTooComplex.code else REFUSAL_TTL


class MemoryCache:
    """The verdicts that were used last: ready or refused, with the reason of a refusal, and the
    residual keywords."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._verdicts: OrderedDict[str, tuple[float, wire.GrammarVerdict]] = OrderedDict()
        """With the time until which each is believed."""

    def verdict(self, key: str) -> wire.GrammarVerdict | None:
        """Return the verdict if it is known."""
        if key not in self._verdicts:
            return None
        until, verdict = self._verdicts[key]
        if self._clock() < until:
            self._verdicts.move_to_end(key)
            return verdict
        del self._verdicts[key]
        return None

    def remember(self, verdict: wire.GrammarVerdict) -> None:
        # Rewritten schemas and compiled grammars are large, and only of use to a backend.
        kept = verdict.model_copy(update={"rewritten": None, "blob": None})
        self._verdicts[verdict.key] = (self._clock() + verdict_ttl(verdict), kept)
        self._verdicts.move_to_end(verdict.key)
        if len(self._verdicts) > MAX_VERDICTS:
            self._verdicts.popitem(last=False)
