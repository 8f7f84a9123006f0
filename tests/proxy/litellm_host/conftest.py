"""LiteLLM's globals as they are at first."""

import pytest

from tests.support.litellm.router import reset_litellm


@pytest.fixture(autouse=True)
def _fresh_litellm(monkeypatch):
    reset_litellm(monkeypatch)
