"""The soak's test of growth."""

from __future__ import annotations

import pytest

from tests.long.chaos.growth import Sample, report, slope


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
    assert report(samples(2, 0))[1] == []
    (found,) = report(samples(2, 200))[1]
    assert found.startswith("gateway: memory, MB grows by")
    assert report(samples(0.2, 2000))[1] == []  # caches are filled first
