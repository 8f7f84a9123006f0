"""The route of a model under LiteLLM's real router and globals."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.litellm.router import row, use
from toolgate_proxy.litellm_host.deployments.model_route import (
    ModelRoute,
    ModelRoutes,
    litellm_reason,
)
from toolgate_proxy.litellm_host.deployments.router import Row, rows_of
from toolgate_proxy.settings import Settings


def route_of(model: str = "tiny") -> ModelRoute:
    model_route = ModelRoutes(Settings(route="auto")).find(model)
    assert model_route is not None
    return model_route


def reason(
    monkeypatch: pytest.MonkeyPatch, *rows: Row, model: str = "tiny", **settings: Any
) -> Any:
    use(monkeypatch, *(rows or (row("a"),)), **settings)
    return litellm_reason(model, rows_of(model))
