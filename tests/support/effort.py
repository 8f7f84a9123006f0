"""How often a check repeats itself: `make test` has 15 minutes, `make test-nightly` has hours."""

from __future__ import annotations

import os

NIGHTLY = os.environ.get("TOOLGATE_TEST_NIGHTLY") == "1"


def repeats(usual: int, *, nightly: int) -> int:
    """The number of examples, walks or requests of a check."""
    return nightly if NIGHTLY else usual
