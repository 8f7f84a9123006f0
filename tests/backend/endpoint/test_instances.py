"""Bounds on instances, before they are walked."""

from __future__ import annotations

from typing import Any

import pytest

from toolgate_backend.endpoint.admission import check_instances
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.errors import InvalidRequest, UnsupportedParameter
from toolgate_core.wire import MAX_INSTANCE_LENGTH, MAX_INSTANCES

DEEP: Any = 1
for _ in range(101):
    DEEP = [DEEP]


def test_what_is_in_bounds_passes() -> None:
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
def test_what_is_not_is_refused_by_name(instances: list[Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_instances(instances, DIALECTS["qwen3"])
    assert refused.value.param == param


def test_models_that_do_not_write_json_are_named() -> None:
    with pytest.raises(UnsupportedParameter, match="qwen3_coder"):
        check_instances([{}], DIALECTS["qwen3_coder"])
