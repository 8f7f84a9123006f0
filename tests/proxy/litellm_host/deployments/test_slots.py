"""The requests in flight of a deployment."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.litellm.router import Row, row, use
from toolgate_proxy.litellm_host.deployments.slots import limit_of


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
