from __future__ import annotations

import gc

import pytest
from hypothesis import settings

from tests.support.agents.client_packages import prepare

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("toolgate", deadline=None)
settings.load_profile("toolgate")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Client libraries are installed while other tests run."""
    if not session.config.option.collectonly:
        prepare({item.path.stem for item in session.items})
    # Modules and collected tests live until the end. A full garbage collection, which some tests
    # ask for, takes a second less without them.
    gc.collect()
    gc.freeze()
