"""Retries of a model by LiteLLM's retry policies."""

from __future__ import annotations

import pytest

from tests.support.litellm.router import Row, row, use
from toolgate_core.errors import (
    BackendFailed,
    BackendTimeout,
    BackendUnavailable,
    EnforcementFailed,
    InvalidRequest,
    ToolgateError,
)
from toolgate_proxy.litellm_host.deployments.fallbacks import Fallbacks

POLICY = {
    "TimeoutErrorRetries": 1,
    "ServiceUnavailableErrorRetries": 2,
    "InternalServerErrorRetries": 3,
    "BadRequestErrorRetries": 4,
}


RETRIES = [
    (BackendTimeout("No."), 1),
    (BackendUnavailable("No."), 2),
    (EnforcementFailed("No."), 3),
    (BackendFailed("No."), 0),
    (InvalidRequest("No."), 0),
]
OF_MODELS = ({"retry_policy": POLICY}, {"model_group_retry_policy": {"tiny": POLICY}})
WITHOUT: tuple[Row, ...] = (
    {}, {"model_group_retry_policy": {"other": POLICY}}, {"num_retries": 3}
)  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "error", "retries"),
    [
        *((settings, *each) for settings in OF_MODELS for each in RETRIES),
        *((settings, BackendTimeout("No."), 0) for settings in WITHOUT),
    ],
)
async def test_policy_allows_retries_by_the_class_of_the_error(
    monkeypatch: pytest.MonkeyPatch, settings: Row, error: ToolgateError, retries: int
) -> None:
    """A request that is invalid is not repeated. Without a policy none is: a request has moved to
    the other backends of its model."""
    use(monkeypatch, row("a"), **settings)
    fallbacks, found = Fallbacks(), 0
    while await fallbacks.retries("tiny", error, backends=2):
        found += 1
    assert found == retries
