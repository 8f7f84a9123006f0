"""Combinations of parameters of which `make test` takes a share, and `make test-nightly` all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


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
