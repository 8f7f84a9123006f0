"""Large modules are imported without garbage collections, and later ones leave them out."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from toolgate_core.host_probe import importing


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_objects_made_inside_are_excluded_from_collections() -> None:
    with importing():
        assert not gc.isenabled()
        made: list[list[int]] = [[] for _ in range(100_000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= len(made)


def test_the_collector_is_enabled_after_an_error() -> None:
    with pytest.raises(ImportError), importing():
        raise ImportError
    assert gc.isenabled()


def test_a_collector_that_was_disabled_stays_disabled() -> None:
    gc.disable()
    with importing():
        pass
    assert not gc.isenabled()
