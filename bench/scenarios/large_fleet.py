"""Simulate affinity, grammar caches and limits of a large fleet, on paper.

    python -m bench large-fleet [--gateways 1000] [--backends 200] [--seconds 120]

Requests arrive at random gateways, as from a load balancer, and each gateway selects a backend with
the code of the gateway (toolgate_proxy.routing.rendezvous). Backends differ from real ones in that
they accept any number of requests, and that responses take a random time. *own* counts only the
requests of the gateway itself, as if backends reported nothing; *reported* also those of the other
gateways, as of the last probe. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import bisect
import heapq
import itertools
import random
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from toolgate_proxy.routing.prefix_hash import PrefixHashes
from toolgate_proxy.routing.rendezvous import RankedDeployment, Rendezvous

HISTORY = 1_000
"""Earlier requests of each gateway, from which it knows the frequencies of heads."""
WARM_UP = 0.4
"""Part of the time before figures are collected."""
TURNS = 5
"""Mean number of turns of a conversation."""
THINK_SECONDS = 5.0
"""Mean time between a response and the next turn."""


@dataclass(frozen=True)
class Fleet:
    gateways: int
    backends: int
    slots: int
    """Sequences in the batch of a backend."""
    utilization: float
    """Mean in-flight requests, relative to all slots."""
    response_seconds: float
    """Mean time of a response."""
    heads: int
    """Different tools and system prompts. Their frequencies follow Zipf's law."""
    probe_seconds: float
    """Time between two probes of a gateway (TOOLGATE_HEALTH_INTERVAL)."""

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.utilization * self.slots * self.backends / self.response_seconds


@dataclass
class Counts:
    turns: int = 0
    """Turns after the first one of a conversation."""
    kept: int = 0
    """Those at the backend of the turn before."""
    peaks: list[float] = field(default_factory=list)
    """The fullest backend at a time, relative to the mean of all."""
    over: list[float] = field(default_factory=list)
    """Part of the in-flight requests that exceed the slots of their backend, at a time."""
    backends_of: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Of each head."""
    requests: int = 0
    first_uses: int = 0
    """Requests whose tools were new to their gateway: it reads their grammars from Redis."""


class Simulation:
    def __init__(self, fleet: Fleet, *, reported: bool, seed: int = 1) -> None:
        self.fleet = fleet
        self.counts = Counts()
        self._reported = reported
        self._random = random.Random(seed)
        self._rendezvous = [Rendezvous() for _ in range(fleet.gateways)]
        self._names = [f"m@http://backend-{at}" for at in range(fleet.backends)]
        self._own = [Counter[int]() for _ in range(fleet.gateways)]
        self._total = [0] * fleet.backends
        self._seen_total = [[0] * fleet.backends] * fleet.gateways
        """What backends reported to each gateway."""
        self._weights = list(itertools.accumulate(1 / at for at in range(1, fleet.heads + 1)))
        self._known: set[tuple[int, int]] = set()
        self._numbers = itertools.count()
        in_flight = round(fleet.utilization * fleet.slots * fleet.backends)
        own = in_flight if reported else in_flight // fleet.gateways
        for rendezvous in self._rendezvous:
            for _ in range(HISTORY):
                rendezvous._note(b"%d" % self._head(), own)

    def run(self, seconds: float) -> Counts:
        fleet, drawn = self.fleet, self._random
        events: list[tuple[float, int, str, tuple[int, ...]]] = []

        def at(when: float, kind: str, *values: int) -> None:
            heapq.heappush(events, (when, next(self._numbers), kind, values))

        at(0.0, "arrival")
        at(0.0, "sample")
        for gateway in range(fleet.gateways if self._reported else 0):
            at(drawn.uniform(0, fleet.probe_seconds), "probe", gateway)
        while events and events[0][0] < seconds:
            now, _, kind, values = heapq.heappop(events)
            counting = now > WARM_UP * seconds
            if kind == "arrival":
                at(now + drawn.expovariate(fleet.rate / TURNS), "arrival")
                at(now, "turn", self._head(), next(self._numbers), -1)
            elif kind == "turn":
                head, conversation, before = values
                gateway = drawn.randrange(fleet.gateways)
                backend = self._sent(gateway, head, conversation)
                self._count(counting, gateway, head, backend, before)
                took = drawn.expovariate(1 / fleet.response_seconds)
                at(now + took, "end", gateway, backend)
                if drawn.random() < 1 - 1 / TURNS:
                    think = drawn.expovariate(1 / THINK_SECONDS)
                    at(now + took + think, "turn", head, conversation, backend)
            elif kind == "end":
                gateway, backend = values
                self._own[gateway][backend] -= 1
                self._total[backend] -= 1
            elif kind == "probe":
                (gateway,) = values
                own = self._own[gateway]
                self._seen_total[gateway] = [
                    total - own[backend] for backend, total in enumerate(self._total)
                ]
                at(now + fleet.probe_seconds, "probe", gateway)
            else:
                at(now + 1.0, "sample")
                if counting:
                    self._sample()
        return self.counts

    def _head(self) -> int:
        return bisect.bisect_left(self._weights, self._random.random() * self._weights[-1])

    def _sent(self, gateway: int, head: int, conversation: int) -> int:
        own, elsewhere = self._own[gateway], self._seen_total[gateway]
        deployments = [
            RankedDeployment(name, 1.0, own[at] + elsewhere[at])
            for at, name in enumerate(self._names)
        ]
        hashes = PrefixHashes(b"%d" % head, b"%d %d" % (head, conversation))
        selected = self._rendezvous[gateway].choose(hashes, deployments)
        backend = self._names.index(selected.deployment.name)
        own[backend] += 1
        self._total[backend] += 1
        return backend

    def _count(self, counting: bool, gateway: int, head: int, backend: int, before: int) -> None:
        new = (gateway, head) not in self._known
        self._known.add((gateway, head))
        if not counting:
            return
        self.counts.requests += 1
        self.counts.first_uses += new
        self.counts.backends_of[head].add(backend)
        if before >= 0:
            self.counts.turns += 1
            self.counts.kept += backend == before

    def _sample(self) -> None:
        everything = sum(self._total)
        over = sum(max(0, each - self.fleet.slots) for each in self._total)
        self.counts.peaks.append(max(self._total) * len(self._total) / everything)
        self.counts.over.append(over / everything)


def rows(fleet: Fleet, seconds: float) -> Iterator[Sequence[str]]:
    yield (
        "counted requests",
        "turns at the backend of the turn before",
        "fullest backend ÷ mean, median",
        "requests over the slots of their backend",
        "backends of the ten most frequent heads, mean",
        "requests with tools that are new to their gateway",
    )
    for name in ("own", "reported"):
        began = time.monotonic()
        counts = Simulation(fleet, reported=name == "reported").run(seconds)
        took = time.monotonic() - began
        print(f"{name}: {counts.requests:,} requests, {took:.0f} s", file=sys.stderr, flush=True)
        spread = statistics.fmean(len(counts.backends_of[head]) for head in range(10))
        yield (
            name,
            f"{counts.kept / counts.turns:.0%}",
            f"{statistics.median(counts.peaks):.1f}",
            f"{statistics.fmean(counts.over):.1%}",
            f"{spread:.0f}",
            f"{counts.first_uses / counts.requests:.1%}",
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gateways", type=int, default=1_000)
    parser.add_argument("--backends", type=int, default=200)
    parser.add_argument("--slots", type=int, default=64, help="sequences in a backend's batch")
    parser.add_argument("--utilization", type=float, default=0.6)
    parser.add_argument("--response-seconds", type=float, default=10.0)
    parser.add_argument("--heads", type=int, default=1_000)
    parser.add_argument("--probe-seconds", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=120.0)
    options = vars(parser.parse_args())
    seconds = options.pop("seconds")
    fleet = Fleet(**options)
    head, *others = rows(fleet, seconds)
    for row in (head, ["---"] * len(head), *others):
        print(f"| {' | '.join(row)} |")
    probes = fleet.gateways / fleet.probe_seconds
    print(f"\n{fleet.rate:,.0f} requests/s, {2 * fleet.rate:,.0f} exchanges with Redis for limits")
    print(f"{probes:,.0f} probes/s at each backend")
    return 0
