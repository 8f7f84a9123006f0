from __future__ import annotations

import pytest

from toolgate_proxy.routing import deployments
from toolgate_proxy.routing.deployments import Load


def test_what_is_on_its_way_counts_once() -> None:
    here = Load()
    here.expect()
    here.expect()
    assert here.requests == 2
    with here.carried():
        assert here.requests == 2
        with here.carried(), here.carried():
            assert here.requests == 3
    assert here.requests == 0


def test_what_never_arrives_counts_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Load()
    here.expect()
    monkeypatch.setattr(deployments, "ON_ITS_WAY", -1.0)
    assert here.requests == 0


def test_a_request_that_fails_is_over() -> None:
    here = Load()
    with pytest.raises(RuntimeError), here.carried():
        raise RuntimeError
    assert here.requests == 0
