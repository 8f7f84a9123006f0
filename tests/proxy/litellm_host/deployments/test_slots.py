"""The requests in flight of a deployment."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import litellm
import pytest

from tests.support.litellm.router import Row, reset_litellm, row, use
from toolgate_proxy.litellm_host.deployments.slots import Slots, limit_of


@pytest.fixture(autouse=True)
def _fresh_litellm(monkeypatch: pytest.MonkeyPatch) -> None:
    reset_litellm(monkeypatch)


@pytest.mark.parametrize(
    ("params", "settings", "limit"),
    [
        ({}, {}, None),
        ({"max_parallel_requests": 3}, {}, 3),
        ({"max_parallel_requests": 3}, {"default_max_parallel_requests": 5}, 3),
        ({}, {"default_max_parallel_requests": 5}, 5),
        ({"max_parallel_requests": 0}, {}, None),
        ({"rpm": 3}, {}, None),
    ],
)
def test_limit_is_that_of_the_deployment_or_the_default(
    monkeypatch: pytest.MonkeyPatch, params: Row, settings: Any, limit: int | None
) -> None:
    made = row("a", **params)
    use(monkeypatch, made, **settings)
    assert limit_of(made) == limit


def test_request_without_a_free_slot_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    slots, limited, other = Slots(), row("a", max_parallel_requests=2), row("b")
    use(monkeypatch, limited, other)
    with ExitStack() as held:
        for _ in range(2):
            assert slots.has_free(limited)
            held.enter_context(slots.taken(limited))
            held.enter_context(slots.taken(other))
        assert not slots.has_free(limited)
        with pytest.raises(litellm.RateLimitError), slots.taken(limited):
            pass
        assert slots.has_free(other)
    assert slots.has_free(limited)
    assert not slots._taken


def test_slot_is_free_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    slots, limited = Slots(), row("a", max_parallel_requests=1)
    use(monkeypatch, limited)
    for _ in range(2):
        with pytest.raises(ValueError, match="x"), slots.taken(limited):
            raise ValueError("x")
    assert slots.has_free(limited)
