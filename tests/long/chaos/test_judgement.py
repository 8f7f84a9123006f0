"""What the soak finds wrong: outcomes of attacks, growth, a limit that is exceeded."""

from __future__ import annotations

import pytest

from tests.long.chaos import growth
from tests.long.chaos.attacks import Attacks
from tests.long.chaos.growth import Sample, slope
from tests.long.chaos.limit_probe import PER_MINUTE, LimitProbe, most_within


def test_outcomes_that_no_gateway_may_have_are_found() -> None:
    attacks = Attacks((), "key")
    attacks.outcomes.update([("trailers", "cut"), ("hostile schemas", "400")])
    table, wrong = attacks.report()
    assert "| hostile schemas | 400 | 1 |" in table
    assert wrong == []
    attacks.outcomes.update([("trailers", "accepted"), ("hostile schemas", "500")])
    attacks.outcomes["hostile schemas", "no response to deep"] += 1
    assert attacks.report()[1] == [
        "attack by hostile schemas: 500",
        "attack by hostile schemas: no response to deep",
        "attack by trailers: accepted",
    ]


def samples(hours: float, per_hour: float) -> list[Sample]:
    """One sample a minute of a server whose memory grows, with noise, after it was filled."""
    count = round(hours * 60)
    return [
        Sample(60.0 * at, "gateway", {"memory, MB": 300 + per_hour * at / 60 + (at % 7)})
        for at in range(count)
    ]


def test_the_slope_is_growth_per_hour() -> None:
    assert slope([(0, 1.0), (1800, 2.0), (3600, 3.0)]) == pytest.approx(2.0)
    assert slope([(0, 1.0)]) == 0.0


def test_growth_is_found_and_noise_is_not() -> None:
    assert growth.report(samples(2, 0))[1] == []
    (found,) = growth.report(samples(2, 200))[1]
    assert found.startswith("gateway: memory, MB grows by")
    assert growth.report(samples(0.2, 2000))[1] == []  # caches are filled first


def test_requests_count_if_they_were_admitted_within_the_window() -> None:
    assert most_within([], 60) == 0
    assert most_within([(0, 1), (30, 31), (59, 60), (60, 61)], 60) == 3
    # It may have been admitted before or after the window.
    assert most_within([(0, 1), (59, 61)], 60) == 1


def test_a_limit_that_is_exceeded_is_found() -> None:
    probe = LimitProbe((), "key")
    probe.passed = [(at, at + 0.1) for at in range(PER_MINUTE)]
    probe.passed += [(at + 60, at + 60.1) for at in range(PER_MINUTE)]
    assert probe.report()[1] == []
    probe.passed = [(at / 2, at / 2 + 0.1) for at in range(2 * PER_MINUTE)]
    (wrong,) = probe.report()[1]
    assert wrong == "120 requests passed within a minute"
