from __future__ import annotations

import time
from typing import Any

import pytest

from toolgate_backend.endpoint.admission import InFlightRequests, check_instances
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.error_body import from_body
from toolgate_core.errors import BackendUnavailable, InvalidRequest, UnsupportedParameter
from toolgate_core.wire import MAX_INSTANCE_LENGTH, MAX_INSTANCES


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


DEEP: Any = 1
for _ in range(101):
    DEEP = [DEEP]


def test_instances_in_bounds_pass() -> None:
    check_instances([{"a": "x"}] * MAX_INSTANCES, DIALECTS["qwen3"])
    check_instances([], DIALECTS["qwen3"])


@pytest.mark.parametrize(
    ("instances", "param"),
    [
        ([{}] * (MAX_INSTANCES + 1), "instances"),
        ([{}, "x" * MAX_INSTANCE_LENGTH], "instances[1]"),
        ([float("inf")], "instances[0]"),
        ([DEEP], "instances[0]"),
        (["\ud800"], "instances[0]"),
    ],
)
def test_instances_out_of_bounds_are_refused_by_name(instances: list[Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_instances(instances, DIALECTS["qwen3"])
    assert refused.value.param == param


def test_instances_are_refused_for_models_that_do_not_write_json() -> None:
    with pytest.raises(UnsupportedParameter, match="qwen3_coder"):
        check_instances([{}], DIALECTS["qwen3_coder"])
