"""Which of a model's deployments a prompt prefers: pure arithmetic on hashes and loads.

Each beginning of a prompt ranks the deployments in an order of its own (weighted rendezvous
hashing), the same one in every process, and nearly the same one when a deployment comes or goes.
Requests with the same head go to the first of the head's order while that can hold them all. What
it can't hold is spread over as many of the order as it takes, and there a conversation, all its
turns, goes by a hash of its own. A deployment with clearly more under way than its share is passed
over.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .prefix_hash import Prefix

SPARE = 4.0
"""Requests that a deployment may have under way, however little the others have."""
FACTOR = 1.25
"""Times its share of what is under way that it may have."""
SMOOTHING = 64
"""Requests over which the number that is under way is averaged."""
MEMORY = 1024
"""Requests after which those before them count half, in how many have which head."""


@dataclass(frozen=True)
class RankedDeployment:
    """A deployment as it is at the moment."""

    name: str
    """Unique among those of a model, and the same for every gateway."""
    weight: float
    """Above 0."""
    requests: int
    """Under way there."""


@dataclass(frozen=True)
class Selected:
    seat: RankedDeployment
    preferred: bool
    """Whether it is the one that the prompt prefers."""


class Rendezvous:
    """Of one model, in one process. What is remembered is how much the heads ask for; where
    requests went is not."""

    def __init__(self) -> None:
        self._heads: Counter[bytes] = Counter()
        self._seen = 0
        self._level = 0.0

    def choose(self, prefix: Prefix, seats: Sequence[RankedDeployment]) -> Selected:
        """Among one or more."""
        under_way = sum(seat.requests for seat in seats)
        weights = sum(seat.weight for seat in seats)
        demand = self._note(prefix.head, under_way)
        held, home = 0.0, []
        for seat in _ranked(prefix.head, seats):
            home.append(seat)
            held += _room(seat, self._level, weights)
            if held >= demand:
                break
        others = [seat for seat in seats if seat not in home]
        order = _ranked(prefix.conversation, home) + _ranked(prefix.conversation, others)
        # Together they have room for more than is under way, so one of them has room.
        roomy = (seat for seat in order if seat.requests < _room(seat, under_way + 1, weights))
        seat = next(roomy, order[0])
        return Selected(seat, preferred=seat is order[0])

    def _note(self, head: bytes, under_way: int) -> float:
        """How many with this head are under way, on the average."""
        self._level += (under_way - self._level) / SMOOTHING
        self._heads[head] += 1
        self._seen += 1
        demand = self._level * self._heads[head] / self._seen
        if self._seen >= MEMORY:
            self._heads = Counter({head: n // 2 for head, n in self._heads.items() if n > 1})
            self._seen //= 2
        return demand


def _room(seat: RankedDeployment, under_way: float, weights: float) -> float:
    return max(SPARE, FACTOR * under_way * seat.weight / weights)


def _ranked(key: bytes, seats: Iterable[RankedDeployment]) -> list[RankedDeployment]:
    return sorted(seats, key=lambda seat: _score(key, seat), reverse=True)


def _score(key: bytes, seat: RankedDeployment) -> float:
    """Schindelhauer and Schomaker, Weighted distributed hash tables (2005): the highest score is a
    seat's with a probability in proportion to its weight."""
    drawn = hashlib.blake2b(seat.name.encode(), digest_size=8, key=key).digest()
    uniform = (
        (int.from_bytes(drawn) >> 12) + 0.5
    ) / 2**52  # above 0 and below 1, as floats have it
    return -seat.weight / math.log(uniform)
