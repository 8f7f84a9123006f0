from __future__ import annotations

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
