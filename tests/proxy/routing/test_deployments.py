"""Load of a deployment: in-flight and expected requests."""

from __future__ import annotations

import pytest

from toolgate_proxy.routing import deployments
from toolgate_proxy.routing.deployments import BackendState, Load


def test_expected_requests_are_counted_once_when_they_arrive() -> None:
    load = Load()
    load.expect()
    load.expect()
    assert load.requests == 2
    with load.running():
        assert load.requests == 2
        with load.running(), load.running():
            assert load.requests == 3
    assert load.requests == 0


def test_expected_requests_that_do_not_arrive_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    load = Load()
    load.expect()
    monkeypatch.setattr(deployments, "EXPECTED_SECONDS", -1.0)
    assert load.requests == 0


def test_failed_requests_are_no_longer_counted() -> None:
    load = Load()
    with pytest.raises(RuntimeError), load.running():
        raise RuntimeError
    assert load.requests == 0


def test_requests_of_other_gateways_are_those_that_the_backend_reports_beyond_our_own() -> None:
    load = Load()
    with load.running():
        load.note_reported(5)
        load.expect()
        assert (load.requests, load.total) == (2, 6)
    assert (load.requests, load.total) == (1, 5)
    load.note_reported(None)
    assert load.total == load.requests == 1


def test_a_backend_is_down_until_it_responds_or_its_failure_is_old() -> None:
    """Without health checks a failure is not renewed, and a request must find out."""
    state = BackendState("http://b", memory=60.0)
    assert not state.is_down
    state.note_failure("slow", at_once=False)
    assert not state.is_down
    state.note_failure("slow", at_once=False)
    assert state.is_down
    state.note_success(0.1)
    assert not state.is_down
    state.note_failure("gone", at_once=True)
    assert state.is_down
    state.memory = 0.0
    assert not state.is_down
