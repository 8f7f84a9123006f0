"""The replicas behind one address: those whose responses arrived in the last time.

A router decides which replica gets a message, so nothing is sent to a certain one. Their number and
their fingerprints are for status pages, and tell whether another replica may respond when one does
not.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from toolgate_core import wire

logger = logging.getLogger(__name__)

MEMORY = 60.0
"""Seconds for which a replica counts after its last response."""
MAX_REPLICAS = 1000


@dataclass(frozen=True)
class Replica:
    name: str
    fingerprint: str
    seen: float
    """Time of its last response, by time.monotonic."""


class Replicas:
    def __init__(self, address: str) -> None:
        """`address`: for the log."""
        self._address = address
        self._seen: dict[str, Replica] = {}
        self._differ = False

    def note(self, sender: wire.Info | wire.StartEvent) -> None:
        """Note the replica that sent this."""
        full = len(self.seen()) >= MAX_REPLICAS
        if not sender.replica or (full and sender.replica not in self._seen):
            return
        now = time.monotonic()
        self._seen[sender.replica] = Replica(sender.replica, sender.fingerprint, now)
        differ = len({each.fingerprint for each in self.seen()}) > 1
        if differ and not self._differ:
            logger.warning(
                "The replicas behind %s differ, so requests may fail. Start all of them with the "
                "same release, model and flags.",
                self._address,
            )
        self._differ = differ

    def seen(self) -> list[Replica]:
        """Return the replicas that responded in the last time, in the order of their names."""
        oldest = time.monotonic() - MEMORY
        if any(each.seen < oldest for each in self._seen.values()):
            self._seen = {each.name: each for each in self._seen.values() if each.seen >= oldest}
        return sorted(self._seen.values(), key=lambda each: each.name)

    @property
    def are_several(self) -> bool:
        return len(self.seen()) > 1
