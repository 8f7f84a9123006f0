from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgate_proxy.routing.prefix_hash import Prefix
from toolgate_proxy.routing.rendezvous import FACTOR, SPARE, RankedDeployment, Rendezvous, Selected

hashes = st.binary(min_size=16, max_size=16)
prefixes = st.builds(Prefix, hashes, hashes)
seats = st.lists(
    st.builds(
        RankedDeployment,
        st.text(max_size=4),
        st.floats(min_value=0.01, max_value=100),
        st.integers(min_value=0, max_value=300),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda seat: seat.name,
)


def prefix(head: int, conversation: int = 0) -> Prefix:
    return Prefix(f"head {head}".encode(), f"head {head}, conversation {conversation}".encode())


def idle(*weights: float) -> list[RankedDeployment]:
    return [
        RankedDeployment(f"tiny@http://backend-{at}", weight, 0)
        for at, weight in enumerate(weights)
    ]


def name(chosen: Selected) -> str:
    return chosen.seat.name


class Fleet:
    """Deployments that answer requests for a while; every gateway chooses for itself."""

    def __init__(self, backends: int, gateways: int = 1, at_once: int = 8) -> None:
        self.gateways = [Rendezvous() for _ in range(gateways)]
        self.names = [seat.name for seat in idle(*[1] * backends)]
        self.running: list[tuple[int, str]] = []
        self.at_once = at_once
        """Under way at each gateway."""

    def send(self, prefix: Prefix, gateway: int = 0) -> str:
        mine = [place for by, place in self.running if by == gateway]
        seats = [RankedDeployment(each, 1, mine.count(each)) for each in self.names]
        sent = name(self.gateways[gateway].choose(prefix, seats))
        self.running.append((gateway, sent))
        if len(mine) >= self.at_once:
            self.running.remove((gateway, mine[0]))
        return sent


@given(prefixes, seats)
def test_what_is_chosen_has_room(prefix: Prefix, seats: list[RankedDeployment]) -> None:
    seat = Rendezvous().choose(prefix, seats).seat
    under_way, weights = sum(s.requests for s in seats) + 1, sum(s.weight for s in seats)
    assert seat in seats
    assert seat.requests < max(SPARE, FACTOR * under_way * seat.weight / weights)


@given(prefixes, seats, st.randoms(use_true_random=False))
def test_every_process_ranks_alike(
    prefix: Prefix, seats: list[RankedDeployment], random: object
) -> None:
    shuffled = sorted(seats, key=lambda seat: random.random())  # type: ignore[attr-defined]
    assert Rendezvous().choose(prefix, seats) == Rendezvous().choose(prefix, shuffled)


def test_a_head_stays_where_it_is_while_there_is_room() -> None:
    fleet = Fleet(4, at_once=int(SPARE) - 1)
    sent = {fleet.send(prefix(1, conversation)) for conversation in range(500)}
    assert len(sent) == 1


def test_heads_are_spread() -> None:
    fleet = Fleet(4)
    sent = Counter(fleet.send(prefix(head)) for head in range(2000))
    assert min(sent.values()) > 400


@pytest.mark.parametrize("backends", [2, 4, 8])
@pytest.mark.parametrize("gateways", [1, 4])
def test_conversations_of_one_busy_head_keep_their_place(backends: int, gateways: int) -> None:
    """Whichever gateway a turn comes to, and though no deployment could hold them all."""
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


def test_a_head_takes_no_more_than_it_needs() -> None:
    """One of ten that ask for as much: of eight deployments it is on two at most, nearly always."""
    fleet = Fleet(8, at_once=64)
    sent = Counter[str]()
    for at in range(5000):
        place = fleet.send(prefix(at % 10, at))
        if at >= 1000 and at % 10 == 0:
            sent[place] += 1
    assert sum(count for _, count in sent.most_common(2)) > 0.8 * sent.total()


def test_one_more_or_less_moves_few() -> None:
    def sent(seats: Sequence[RankedDeployment]) -> list[str]:
        return [name(Rendezvous().choose(prefix(head), seats)) for head in range(500)]

    all_of_them = idle(1, 1, 1, 1)
    before, after = sent(all_of_them), sent(all_of_them[1:])
    lost = all_of_them[0].name
    assert all(a == b for a, b in zip(before, after, strict=True) if a != lost)


def test_weights() -> None:
    seats = idle(3, 1)
    sent = Counter(name(Rendezvous().choose(prefix(head), seats)) for head in range(2000))
    assert 0.7 < sent[seats[0].name] / 2000 < 0.8
