"""The soak's check of a limit."""

from __future__ import annotations

from tests.long.chaos.limit_probe import PER_MINUTE, LimitProbe, most_within


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
