"""A large fleet, small: what its replicas compile, and what it asks Redis."""

import pytest

pytest.importorskip("lupa", reason="the simulated network comes with a simulated Redis")

from bench import fleet_cost
from bench.fleet_cost import Counted, Size

SMALL = Size(
    replicas=3,
    gateways=2,
    tools=24,
    turns=2,
    pause=0.1,
    requests_per_second=40.0,
    seconds=5.0,
)


@pytest.fixture(scope="module")
def minutes() -> dict[str, Counted]:
    return fleet_cost.simulate(SMALL)


def test_each_replica_compiles_and_loads_a_tool_at_most_once(minutes):
    for name, each in minutes.items():
        most = len(each.tools) * SMALL.replicas
        assert each.counts["compiles"] <= each.counts["loads"] <= most, name
    first = minutes["everything is new"]
    assert first.counts["compiles"] >= len(first.tools) > 0


def test_new_gateways_read_the_records_of_the_fleet(minutes):
    """They find verdicts in Redis, so their requests name no tool as new that has one there."""
    first, second = minutes["everything is new"], minutes["new gateways"]
    assert first.counts["new"] >= len(first.tools)
    known = first.tools & second.tools
    assert second.counts["records"] >= len(known) > 0
    assert second.tools - known or not second.counts["new"]


def test_a_fleet_without_requests_only_polls_for_keys(minutes):
    idle = minutes["no requests"]
    assert idle.exchanges.keys() == {"keys"}


def test_a_new_grammar_without_a_verdict_is_reported(minutes, capsys):
    assert fleet_cost.report(SMALL, minutes) == 0
    lost = Counted(seconds=1.0)
    lost.counts["unreported"] = 1
    assert fleet_cost.report(SMALL, {**minutes, "lost": lost}) == 1
    assert "Grammars without a verdict: 1" in capsys.readouterr().out
