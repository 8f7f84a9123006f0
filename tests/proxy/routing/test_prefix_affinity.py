"""Rendezvous hashing: stable and balanced selection of deployments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgate_proxy.routing.prefix_affinity import (
    MAX_SHARE,
    MIN_CAPACITY,
    RankedDeployment,
    Rendezvous,
    Selected,
)
from toolgate_proxy.routing.prefix_hash import PrefixHashes

digests = st.binary(min_size=16, max_size=16)
prefixes = st.builds(PrefixHashes, digests, digests)
deployments = st.lists(
    st.builds(
        RankedDeployment,
        st.text(max_size=4),
        st.floats(min_value=0.01, max_value=100),
        st.integers(min_value=0, max_value=300),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda deployment: deployment.name,
)


def prefix(head: int, conversation: int = 0) -> PrefixHashes:
    return PrefixHashes(
        f"head {head}".encode(), f"head {head}, conversation {conversation}".encode()
    )


def idle(*weights: float) -> list[RankedDeployment]:
    return [
        RankedDeployment(f"tiny@http://backend-{at}", weight, 0)
        for at, weight in enumerate(weights)
    ]


def name(selected: Selected) -> str:
    return selected.deployment.name


class Fleet:
    """Deployments with in-flight requests. Each gateway selects independently."""

    def __init__(
        self, backends: int, gateways: int = 1, at_once: int = 8, *, reported: bool = False
    ) -> None:
        """`reported`: gateways know each other's requests."""
        self.reported = reported
        self.gateways = [Rendezvous() for _ in range(gateways)]
        self.names = [deployment.name for deployment in idle(*[1] * backends)]
        self.running: list[tuple[int, str]] = []
        self.at_once = at_once
        """In-flight requests of each gateway."""

    def send(self, prefix: PrefixHashes, gateway: int = 0) -> str:
        mine = [place for by, place in self.running if by == gateway]
        known = [place for _, place in self.running] if self.reported else mine
        deployments = [RankedDeployment(each, 1, known.count(each)) for each in self.names]
        sent = name(self.gateways[gateway].choose(prefix, deployments))
        self.running.append((gateway, sent))
        if len(mine) >= self.at_once:
            self.running.remove((gateway, mine[0]))
        return sent


@given(prefixes, deployments)
def test_selected_deployments_have_capacity(
    prefix: PrefixHashes, deployments: list[RankedDeployment]
) -> None:
    deployment = Rendezvous().choose(prefix, deployments).deployment
    in_flight, weights = (
        sum(s.requests for s in deployments) + 1,
        sum(s.weight for s in deployments),
    )
    assert deployment in deployments
    assert deployment.requests < max(
        MIN_CAPACITY, MAX_SHARE * in_flight * deployment.weight / weights
    )


@given(prefixes, deployments, st.randoms(use_true_random=False))
def test_selection_does_not_depend_on_the_order_of_deployments(
    prefix: PrefixHashes, deployments: list[RankedDeployment], random: object
) -> None:
    shuffled = sorted(deployments, key=lambda deployment: random.random())  # type: ignore[attr-defined]
    assert Rendezvous().choose(prefix, deployments) == Rendezvous().choose(prefix, shuffled)


def test_a_head_uses_one_deployment_while_it_has_capacity() -> None:
    fleet = Fleet(4, at_once=int(MIN_CAPACITY) - 1)
    sent = {fleet.send(prefix(1, conversation)) for conversation in range(500)}
    assert len(sent) == 1


def test_heads_are_distributed_evenly() -> None:
    fleet = Fleet(4)
    sent = Counter(fleet.send(prefix(head)) for head in range(2000))
    assert min(sent.values()) > 400


@pytest.mark.parametrize("backends", [2, 4, 8])
@pytest.mark.parametrize("gateways", [1, 4])
def test_conversations_of_a_busy_head_stay_at_their_deployment(
    backends: int, gateways: int
) -> None:
    """Turns arrive at different gateways, and one deployment has no capacity for all."""
    fleet = Fleet(backends, gateways, at_once=64)
    for warm in range(500 * gateways):
        fleet.send(prefix(1, warm), warm % gateways)
    stayed, turns = 0, 6
    conversations = range(10_000, 10_300)
    last: dict[int, str] = {}
    used = Counter[str]()
    for turn in range(turns):
        for conversation in conversations:
            sent = fleet.send(prefix(1, conversation), (conversation + turn) % gateways)
            stayed += last.get(conversation) == sent
            last[conversation] = sent
            used[sent] += 1
    assert stayed / (len(conversations) * (turns - 1)) > 0.8
    assert max(used.values()) < 1.5 * sum(used.values()) / backends


def test_many_gateways_together_respect_the_capacity_of_a_deployment() -> None:
    """Each of them has so few requests that it would send all to the same deployment."""
    fleet = Fleet(8, gateways=100, at_once=2, reported=True)
    for at in range(4_000):
        fleet.send(prefix(1, at), at % 100)
    used = Counter(place for _, place in fleet.running)
    assert len(used) > 5
    assert max(used.values()) <= MAX_SHARE * (len(fleet.running) + 1) / 8 + 1


def test_a_head_uses_no_more_deployments_than_necessary() -> None:
    """One of ten equally frequent heads uses at most two of eight deployments, nearly always."""
    fleet = Fleet(8, at_once=64)
    sent = Counter[str]()
    for at in range(5000):
        place = fleet.send(prefix(at % 10, at))
        if at >= 1000 and at % 10 == 0:
            sent[place] += 1
    assert sum(count for _, count in sent.most_common(2)) > 0.8 * sent.total()


def test_removing_a_deployment_moves_only_its_prompts() -> None:
    def sent(deployments: Sequence[RankedDeployment]) -> list[str]:
        return [name(Rendezvous().choose(prefix(head), deployments)) for head in range(500)]

    all_of_them = idle(1, 1, 1, 1)
    before, after = sent(all_of_them), sent(all_of_them[1:])
    lost = all_of_them[0].name
    assert all(a == b for a, b in zip(before, after, strict=True) if a != lost)


def test_requests_are_distributed_by_weight() -> None:
    deployments = idle(3, 1)
    sent = Counter(name(Rendezvous().choose(prefix(head), deployments)) for head in range(2000))
    assert 0.7 < sent[deployments[0].name] / 2000 < 0.8
