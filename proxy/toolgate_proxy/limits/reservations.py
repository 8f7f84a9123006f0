"""The requests in flight of this process: what was reserved for each, and what it has used.

A background task updates all of them three times per lease: it renews their leases and charges what
they have used beyond their reservation, so that a long response counts while it is generated. An
update that failed because Redis did not respond is sent again in the next round.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..background import finished
from ..keys.limit_kinds import LimitKind, Tokens
from .counter import AdmissionResult, Change, Cost, Counter, NoResponse, Unavailable, UsageUpdate

logger = logging.getLogger(__name__)

ROUNDS_PER_LEASE = 3
CONCURRENT_UPDATES = 64
"""Requests updated in one exchange. One at a time, the leases of many requests would expire during
a round."""
MAX_PENDING = 100_000
"""Ended requests that are kept until they are settled. If Redis does not respond for long, the
oldest are dropped."""
MAX_REFUSALS = 20
"""Updates of an ended request that Redis may refuse before it is dropped."""


@dataclass
class Charge:
    """What one request was counted with, in one counter."""

    kind: LimitKind
    amount: int
    """The reservation at first."""
    period: int


@dataclass
class Reservation:
    """One admitted request."""

    key_id: str
    request_id: str
    charges: Sequence[Charge]
    used: Callable[[], Tokens]
    """Returns the tokens used so far."""
    counter: Counter
    """The counter that admitted it."""
    ended: bool = False
    refusals: int = 0
    """Updates that Redis refused."""

    def changes(self) -> tuple[Change, ...]:
        """Return what the counters lack. Before the request has ended, reservations are not
        returned."""
        used, changes = self.used(), []
        for charge in self.charges:
            if charge.kind.window.type == "in_flight":
                changes.append(Change(charge.kind, 0, charge.period))
                continue
            amount = charge.kind.unit.amount(used) - charge.amount
            if amount > 0 or (amount and self.ended):
                changes.append(Change(charge.kind, amount, charge.period))
        return tuple(changes)

    def add(self, costs: Sequence[Cost]) -> None:
        """Add to what the request was counted with. `costs`: what was counted in addition."""
        amounts = {cost.kind.name: cost.amount for cost in costs}
        for charge in self.charges:
            charge.amount += amounts.get(charge.kind.name, 0)

    def apply(self, changes: Sequence[Change], sign: int = 1) -> None:
        self.add([Cost(change.kind, None, sign * change.amount) for change in changes])


class Reservations:
    """`lease`: seconds after which a request without an update no longer counts as in flight."""

    def __init__(self, lease: float) -> None:
        self._pause = lease / ROUNDS_PER_LEASE
        self._entries: dict[str, Reservation] = {}
        self._task: asyncio.Task[None] | None = None

    def open(
        self,
        key_id: str,
        request_id: str,
        charges: Sequence[Charge],
        used: Callable[[], Tokens],
        counter: Counter,
    ) -> Reservation:
        reservation = Reservation(key_id, request_id, charges, used, counter)
        self._add(reservation)
        return reservation

    def abandon(
        self, key_id: str, request_id: str, costs: Sequence[Cost], counter: Counter
    ) -> None:
        """Release the leases of a request in the next round. For a request that Redis did not
        respond to: it may still be admitted there."""
        leases = [Charge(cost.kind, 0, 0) for cost in costs if cost.kind.window.type == "in_flight"]
        if leases:
            self._add(Reservation(key_id, request_id, leases, Tokens, counter, ended=True))

    async def close(self, reservation: Reservation) -> None:
        """Settle what an ended request has used, and release its leases, also if the caller is
        cancelled meanwhile. May be called again when it is known better what was used."""
        reservation.ended = True
        self._entries[reservation.request_id] = reservation
        await finished(self._update(reservation))

    @property
    def in_flight(self) -> int:
        return sum(not entry.ended for entry in self._entries.values())

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _add(self, reservation: Reservation) -> None:
        self._entries[reservation.request_id] = reservation
        if self._task is None:
            self._task = asyncio.create_task(self._update_forever())

    async def _update_forever(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            entries = list(self._entries.values())
            for at in range(0, len(entries), CONCURRENT_UPDATES):
                batch = entries[at : at + CONCURRENT_UPDATES]
                if not all(await asyncio.gather(*map(self._update, batch))):
                    break  # Redis does not respond: one attempt a round is enough
            for request_id in list(self._entries)[: max(0, len(self._entries) - MAX_PENDING)]:
                del self._entries[request_id]

    async def _update(self, reservation: Reservation) -> bool:
        """Return whether the counters responded."""
        changes, ended = reservation.changes(), reservation.ended
        if changes:
            update = UsageUpdate(reservation.key_id, reservation.request_id, changes, ended)
            # Before the exchange: a concurrent update must not charge the same again.
            reservation.apply(changes)
            try:
                await reservation.counter.update(update)
            except Unavailable as error:
                reservation.apply(changes, sign=-1)
                if isinstance(error, NoResponse):
                    return False
                reservation.refusals += 1
                if ended and reservation.refusals > MAX_REFUSALS:
                    self._entries.pop(reservation.request_id, None)
                return True
        if ended:
            self._entries.pop(reservation.request_id, None)
        return True


def charges(costs: Sequence[Cost], result: AdmissionResult) -> list[Charge]:
    """Return what an admitted request was counted with."""
    return [Charge(cost.kind, cost.amount, result.usage[cost.kind.name].period) for cost in costs]
