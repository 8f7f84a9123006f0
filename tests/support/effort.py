"""How often a check repeats itself: `make test` has 15 minutes, `make test-nightly` has hours."""

from __future__ import annotations

import os

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
