from __future__ import annotations

import time

import pytest

from toolgate_backend.enforcement import mask_time_budget
from toolgate_backend.enforcement.mask_time_budget import MaskTimeBudget
from toolgate_backend.errors import MaskTooSlow


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The processor's time of this thread, and the wall's; its one entry is set by the test."""
    now = [0.0]
    monkeypatch.setattr(mask_time_budget.time, "thread_time", lambda: now[0])
    monkeypatch.setattr(mask_time_budget.time, "perf_counter", lambda: now[0])
    return now


def take(held: MaskTimeBudget, clock: list[float], seconds: float) -> None:
    with held:
        clock[0] += seconds


def test_consecutive_slow_masks_raise_mask_too_slow(clock: list[float]) -> None:
    """The first slow mask is not counted: its processor time was not measured."""
    held = MaskTimeBudget(0.02, 3)
    for _ in range(3):
        take(held, clock, 1)
    with pytest.raises(MaskTooSlow, match="20 ms"):
        take(held, clock, 1)


def test_occasional_slow_masks_are_tolerated(clock: list[float]) -> None:
    held = MaskTimeBudget(0.02, 3)
    for seconds in (1, 1, 1, 0.001) * 5:
        take(held, clock, seconds)


def test_time_spent_waiting_is_not_counted() -> None:
    """Wall-clock delays on a busy machine are not caused by the grammar."""
    held = MaskTimeBudget(0.02, 1)
    for _ in range(3):
        with held:
            time.sleep(0.05)


def test_errors_of_the_grammar_are_propagated() -> None:
    with pytest.raises(KeyError), MaskTimeBudget(1, 1):
        raise KeyError
