"""Invalid keys are counted by client address."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.waiting import Clock
from toolgate_core.errors import TooManyWrongKeys
from toolgate_proxy.keys import failed_attempts as module
from toolgate_proxy.keys.failed_attempts import FailedAttempts


def test_wrong_keys_are_limited_per_client_address() -> None:
    clock = Clock()
    failed_attempts = FailedAttempts(20, clock)
    for _ in range(20):
        failed_attempts.count("a")
        clock.seconds += 1
    with pytest.raises(TooManyWrongKeys) as refused:
        failed_attempts.count("a")
    failed_attempts.count("b")
    assert refused.value.retry_after == 40
    clock.seconds += refused.value.retry_after
    failed_attempts.count("a")
    with pytest.raises(TooManyWrongKeys):
        failed_attempts.count("a")


@given(st.lists(st.floats(0, 30), max_size=100))
def test_no_minute_has_more_wrong_keys_than_the_limit(pauses: list[float]) -> None:
    clock, told, waits = Clock(), list[float](), list[int | None]()
    failed_attempts = FailedAttempts(5, clock)
    for pause in pauses:
        clock.seconds += pause
        try:
            failed_attempts.count("a")
        except TooManyWrongKeys as refused:
            waits.append(refused.retry_after)
        else:
            told.append(clock.seconds)
    assert all(later - first >= 60 for first, later in zip(told, told[5:], strict=False))
    assert all(wait is not None and 1 <= wait <= 60 for wait in waits)


def test_addresses_are_dropped_beyond_the_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ADDRESSES", 2)
    failed_attempts = FailedAttempts(1, Clock())
    for address in ("a", "b", "c", "a"):
        failed_attempts.count(address)
    with pytest.raises(TooManyWrongKeys):
        failed_attempts.count("c")
