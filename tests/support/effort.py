"""How often a check repeats itself: `make test` has 15 minutes, `make test-nightly` has hours."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

NIGHTLY = os.environ.get("TOOLGATE_TEST_NIGHTLY") == "1"


def repeats(usual: int, *, nightly: int) -> int:
    """The number of examples, walks or requests of a check."""
    return nightly if NIGHTLY else usual


def examples(usual: int, *, nightly: int) -> settings:
    """Settings for generated values that take long to make, such as schemas."""
    return settings(
        max_examples=repeats(usual, nightly=nightly),
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


def sampled(names: str, rows: Iterable[Any], columns: Iterable[Any], *, one_in: int) -> Any:
    """A mark with all combinations of a value of `rows` and one of `columns`, for the arguments
    `names`. Of `one_in` combinations, all but one are slow. Each row and each column has one that
    is not, if there are at least `one_in` of both."""
    return pytest.mark.parametrize(
        names,
        [
            pytest.param(row, column, marks=[pytest.mark.slow] if (down + across) % one_in else [])
            for down, row in enumerate(rows)
            for across, column in enumerate(columns)
        ],
    )
