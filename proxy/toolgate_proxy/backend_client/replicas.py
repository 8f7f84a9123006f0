"""The replicas behind one address of a backend, by what their responses say of them."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from itertools import takewhile

from toolgate_core import wire

logger = logging.getLogger(__name__)

MEMORY = 30.0
"""Seconds for which a replica counts after its last response: less than the start of one takes,
which has another name then."""
MAX_REPLICAS = 1000
"""Number of replicas whose names are known, so that they are not taken for new ones."""


@dataclass(frozen=True)
class Replica:
    name: str
    fingerprint: str
    seen: float
    """Time of its last response, by time.monotonic."""


class Replicas:
    """The replicas behind one address. A router decides which of them gets a message."""

    def __init__(self, address: str) -> None:
        """`address`: for the log."""
        self._address = address
        self._known: dict[str, Replica] = {}
        """In the order of their last responses."""
        self._differ = False
        self.joined = 0
        """Number of replicas that were new, since the start of this process."""

    def note(self, sender: wire.Info | wire.StartEvent) -> None:
        """Note the replica that sent this."""
        if not (name := sender.replica):
            return
        self.joined += self._known.pop(name, None) is None
        self._known[name] = Replica(name, sender.fingerprint, time.monotonic())
        if len(self._known) > MAX_REPLICAS:
            del self._known[next(iter(self._known))]
        differ = len({each.fingerprint for each in self._recent()}) > 1
        if differ and not self._differ:
            logger.warning(
                "The replicas behind %s differ, so requests may fail. Start all of them with the "
                "same release, model and flags.",
                self._address,
            )
        self._differ = differ

    def seen(self) -> list[Replica]:
        """Return the replicas that responded in the last time, in the order of their names."""
        return sorted(self._recent(), key=lambda each: each.name)

    @property
    def count(self) -> int:
        """The number of those."""
        return len(self._recent())

    def _recent(self) -> list[Replica]:
        oldest = time.monotonic() - MEMORY
        newest_first = reversed(self._known.values())
        return [*takewhile(lambda each: each.seen >= oldest, newest_first)]
