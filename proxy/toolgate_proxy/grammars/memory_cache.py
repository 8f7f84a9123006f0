"""Memory of one process about grammars: the verdicts of backends."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from toolgate_core import wire
from toolgate_core.errors import SchemaTooComplex

from ..backend_client.replicas import Replicas

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


@dataclass
class _Known:
    verdict: wire.GrammarVerdict
    until: float
    """The time until which it is believed."""
    joined: int = 0
    sends: int = 0
    """How often its record was sent since so many replicas had joined."""


class MemoryCache:
    """The verdicts that were used last: ready or refused, with the reason of a refusal, and the
    residual keywords."""

    def __init__(self) -> None:
        self._verdicts: OrderedDict[str, _Known] = OrderedDict()

    def verdicts(self, keys: Iterable[str]) -> dict[str, wire.GrammarVerdict]:
        """Return the verdicts that are known, by key."""
        found, now = dict[str, wire.GrammarVerdict](), time.monotonic()
        for key in keys:
            known = self._verdicts.pop(key, None)
            if known is not None and known.until > now:
                self._verdicts[key] = known  # as the last one
                found[key] = known.verdict
        return found

    def lacked(self, keys: Iterable[str], replicas: Replicas) -> list[str]:
        """Return the keys whose records a replica of an address may lack, which count as sent. A
        router chooses the replica, so after one has joined each record is sent as often as there
        are replicas."""
        found, joined, count = list[str](), replicas.joined, replicas.count
        for known in filter(None, map(self._verdicts.get, keys)):
            if known.joined != joined:
                known.joined, known.sends = joined, 0
            if known.sends < count:
                known.sends += 1
                found.append(known.verdict.key)
        return found

    def remember(self, verdict: wire.GrammarVerdict) -> None:
        # Rewritten schemas and compiled grammars are large, and only of use to a backend.
        kept = verdict.model_copy(update={"rewritten": None, "blob": None})
        self._verdicts[verdict.key] = _Known(kept, time.monotonic() + verdict_ttl(verdict))
        self._verdicts.move_to_end(verdict.key)
        if len(self._verdicts) > MAX_VERDICTS:
            self._verdicts.popitem(last=False)
