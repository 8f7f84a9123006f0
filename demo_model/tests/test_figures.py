"""The figures of an evaluation: pairs of answers, and the interval of their difference."""

from __future__ import annotations

import pytest

from trainer.evaluate import Figures, interval, table, together


def test_difference_has_an_interval() -> None:
    low, high = interval(lost=2, gained=12, number=60)
    assert 0 < low < 10 / 60 < high
    assert interval(0, 0, 60) == pytest.approx((-0.032, 0.032), abs=0.001)
    assert interval(5, 1, 60) == tuple(-end for end in reversed(interval(1, 5, 60)))


def test_row_has_shares_pairs_and_difference() -> None:
    one = Figures("Chinese", 50, both=40, lost=1, gained=4, free_valid=45, enforced_valid=50)
    assert one.row() == ("| Chinese | 50 | 82 % | 88 % | 90 % | 100 % | 4 / 1 | +6 (-3 to +15) |")
    both = together([one, one])
    assert (both.number, both.lost, both.gained, both.enforced_valid) == (100, 2, 8, 100)
    lines = table([one, both]).splitlines()
    assert {line.count("|") for line in lines} == {9}
