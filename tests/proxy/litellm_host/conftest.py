"""LiteLLM's globals as they are at first."""

from __future__ import annotations

import pytest

from tests.support.litellm.router import reset_litellm


@pytest.fixture(autouse=True)
def _fresh_litellm(monkeypatch: pytest.MonkeyPatch) -> None:
    reset_litellm(monkeypatch)
