from __future__ import annotations

import time

import pytest

from toolgate_backend.endpoint.admission import InFlightRequests
from toolgate_core.error_body import from_body
from toolgate_core.errors import BackendUnavailable


def test_requests_over_the_limit_are_rejected_with_retry_after() -> None:
    hand = InFlightRequests(2)
    with hand.track():
        with hand.track():
            with pytest.raises(BackendUnavailable) as refused, hand.track():
                pass
            assert hand.count == 2
        with hand.track():
            pass
    assert hand.count == 0
    crossed = from_body(503, refused.value.body())
    assert isinstance(crossed, BackendUnavailable)
    assert crossed.retry_after


def test_a_backend_that_shuts_down_refuses_new_requests_and_finishes_the_active_one() -> None:
    requests = InFlightRequests(2)
    with requests.track():
        requests.close()
        with pytest.raises(BackendUnavailable, match="shutting down") as refused, requests.track():
            pass
        assert refused.value.retry_after
        began = time.monotonic()
        requests.wait_until_idle(0.2)
        assert time.monotonic() - began >= 0.2
    requests.wait_until_idle(60)
    with pytest.raises(BackendUnavailable):
        requests.require_open()
