"""Counts of the last minutes."""

from __future__ import annotations

from tests.support.waiting import Clock
from toolgate_proxy.recent_requests import MAX_TIMES, MINUTES, RecentRequests


def test_requests_are_counted_in_their_minute() -> None:
    clock = Clock()
    recent = RecentRequests(clock)
    recent.note("200", 0.25, "memory", omitted=True)
    recent.note("429", None, None)
    clock.seconds += 60
    recent.note("502", None, "compiled")
    recent.note("stream_error", 0.5, None)
    recent.note("disconnected", None, None)
    *earlier, before, now = recent.minutes()
    assert len(earlier) == MINUTES - 2
    assert {minute.requests for minute in earlier} == {0}
    assert (before.requests, before.refused, before.failed) == (2, 1, 0)
    assert (before.omitted, now.omitted) == (1, 0)
    assert (before.first_token_seconds, before.tiers) == ([0.25], {"memory": 1})
    assert (now.requests, now.refused, now.failed) == (3, 0, 2)
    assert now.start - before.start == 1


def test_earlier_minutes_are_dropped_also_if_no_request_follows() -> None:
    clock = Clock()
    recent = RecentRequests(clock)
    recent.note("200", None, None)
    clock.seconds += 60 * MINUTES
    assert sum(minute.requests for minute in recent.minutes()) == 0
    assert len(recent.minutes()) == MINUTES


def test_memory_is_bounded() -> None:
    recent = RecentRequests(Clock())
    for _ in range(MAX_TIMES + 10):
        recent.note("200", 0.1, None)
    minute = recent.minutes()[-1]
    assert (minute.requests, len(minute.first_token_seconds)) == (MAX_TIMES + 10, MAX_TIMES)
