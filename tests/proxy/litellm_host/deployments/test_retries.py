"""Retries of a model by LiteLLM's retry policies."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.litellm.router import Row, reset_litellm, row, use
from toolgate_core.errors import (
    BackendFailed,
    BackendTimeout,
    BackendUnavailable,
    EnforcementFailed,
    InvalidRequest,
    ToolgateError,
)
from toolgate_proxy.litellm_host.deployments.fallbacks import retries_after

POLICY = {
    "TimeoutErrorRetries": 1,
    "ServiceUnavailableErrorRetries": 2,
    "InternalServerErrorRetries": 3,
    "BadRequestErrorRetries": 4,
}


@pytest.mark.parametrize(
    ("error", "retries"),
    [
        (BackendTimeout("No."), 1),
        (BackendUnavailable("No."), 2),
        (EnforcementFailed("No."), 3),
        (BackendFailed("No."), 0),
        (InvalidRequest("No."), 0),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize(
    "settings",
    [{"retry_policy": POLICY}, {"model_group_retry_policy": {"tiny": POLICY}}],
    ids=["of all models", "of the model"],
)
def test_policy_allows_retries_by_the_class_of_the_error(
    monkeypatch: pytest.MonkeyPatch, settings: Row, error: ToolgateError, retries: int
) -> None:
    """A request that is invalid is not repeated."""
    reset_litellm(monkeypatch)
    use(monkeypatch, row("a"), **settings)
    assert retries_after("tiny", error, {}) == retries


@pytest.mark.parametrize(
    "settings", [{}, {"model_group_retry_policy": {"other": POLICY}}, {"num_retries": 3}], ids=str
)
def test_without_a_policy_there_are_no_retries(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    """A request has moved to the other backends of its model."""
    reset_litellm(monkeypatch)
    use(monkeypatch, row("a"), **settings)
    assert retries_after("tiny", BackendTimeout("No."), {}) == 0
