"""The replicas behind one address of a backend, by what their responses say of them."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from toolgate_core import wire

logger = logging.getLogger(__name__)

MEMORY = 30.0
"""Seconds for which a replica counts after its last response: less than the start of one takes,
which has another name then."""
MAX_REPLICAS = 1000


@dataclass(frozen=True)
class Replica:
    name: str
    fingerprint: str
    seen: float
    """Time of its last response, by time.monotonic."""


class Replicas:
    """The replicas behind one address: those whose responses arrived in the last time. A router
    decides which of them gets a message, so nothing is sent to a certain one."""

    def __init__(self, address: str) -> None:
        """`address`: for the log."""
        self._address = address
        self._seen: dict[str, Replica] = {}
        self._differ = False

    def note(self, sender: wire.Info | wire.StartEvent) -> None:
        """Note the replica that sent this."""
        seen, name = self._recent(), sender.replica
        if not name or (len(seen) >= MAX_REPLICAS and name not in seen):
            return
        seen[name] = Replica(name, sender.fingerprint, time.monotonic())
        differ = len({each.fingerprint for each in seen.values()}) > 1
        if differ and not self._differ:
            logger.warning(
                "The replicas behind %s differ, so requests may fail. Start all of them with the "
                "same release, model and flags.",
                self._address,
            )
        self._differ = differ

    def seen(self) -> list[Replica]:
        """Return the replicas that responded in the last time, in the order of their names."""
        return sorted(self._recent().values(), key=lambda each: each.name)

    @property
    def are_several(self) -> bool:
        return len(self._recent()) > 1

    def _recent(self) -> dict[str, Replica]:
        oldest = time.monotonic() - MEMORY
        if any(each.seen < oldest for each in self._seen.values()):
            self._seen = {each.name: each for each in self._seen.values() if each.seen >= oldest}
        return self._seen
