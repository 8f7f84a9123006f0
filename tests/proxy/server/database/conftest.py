"""LiteLLM's database mode on the gateway's own route."""

from __future__ import annotations

import pytest
from litellm.proxy.middleware.budget_reservation_release_middleware import (
    BudgetReservationReleaseMiddleware,
)

from tests.support.litellm.database import Database, started
from tests.support.litellm.own_route import Gateway, ours
from tests.support.litellm.router import Row, use

PRICES = {"input_cost_per_token": 0.001, "output_cost_per_token": 0.01}
THEIRS = "theirs"
"""A model that LiteLLM serves, beside our own one."""


def theirs() -> Row:
    params = {"model": f"hosted_vllm/{THEIRS}", "api_base": "http://127.0.0.1:9", "api_key": "k"}
    return {"model_name": THEIRS, "litellm_params": params | PRICES}


@pytest.fixture
def database(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Database:
    use(monkeypatch, ours(gateway.backend, **PRICES), theirs())
    made = started(monkeypatch)
    gateway._app = BudgetReservationReleaseMiddleware(gateway._app, release=made.release)
    return made
