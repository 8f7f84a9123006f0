"""LiteLLM's database mode on the gateway's own route."""

import httpx
import pytest
from litellm.proxy import proxy_server
from litellm.proxy.middleware.budget_reservation_release_middleware import (
    BudgetReservationReleaseMiddleware,
)

from tests.support.litellm.database import started
from tests.support.litellm.own_route import ours
from tests.support.litellm.router import use

PRICES = {"input_cost_per_token": 0.001, "output_cost_per_token": 0.01}
CLIENT = "client/1.0"
THEIRS = "theirs"
"""A model that LiteLLM serves, beside our own one."""


def theirs():
    params = {"model": f"hosted_vllm/{THEIRS}", "api_base": "http://127.0.0.1:9", "api_key": "k"}
    mocked = {"mock_response": "Hello there"}
    return {"model_name": THEIRS, "litellm_params": params | PRICES | mocked}


async def ask_litellm(path, body, key):
    """Send a request to LiteLLM's own app."""
    headers = {"authorization": f"Bearer {key}", "user-agent": CLIENT}
    transport = httpx.ASGITransport(app=proxy_server.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://litellm") as client:
        return await client.post(path, json=body, headers=headers)


@pytest.fixture
async def database(gateway, monkeypatch):
    use(monkeypatch, ours(gateway.backend, **PRICES), theirs())
    async with started(monkeypatch) as made:
        gateway._app = BudgetReservationReleaseMiddleware(gateway._app, release=made.release)
        yield made
