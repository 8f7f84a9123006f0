"""Invalid keys are counted by client address."""

from __future__ import annotations

import pytest

from tests.support.clock import Clock
from toolgate_core.errors import TooManyWrongKeys
from toolgate_proxy.keys.failed_attempts import FailedAttempts


def test_wrong_keys_are_limited_per_client_address() -> None:
    clock = Clock()
    failed_attempts = FailedAttempts(20, clock)
    for _ in range(20):
        failed_attempts.count("a")
    with pytest.raises(TooManyWrongKeys) as refused:
        failed_attempts.count("a")
    failed_attempts.count("b")
    assert refused.value.retry_after == 3
    clock.seconds += refused.value.retry_after
    failed_attempts.count("a")
    with pytest.raises(TooManyWrongKeys):
        failed_attempts.count("a")
