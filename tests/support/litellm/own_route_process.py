"""The gateway's own route in this process, with LiteLLM's globals as a gateway has them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from litellm.proxy import proxy_server
from pydantic import SecretStr

from tests.support.litellm.own_route import MASTER, TICK, Gateway, ours
from tests.support.litellm.router import reset_litellm, use
from tests.support.servers.fake_backend import KEY, FakeBackend
from tests.support.servers.gateway_process import KEY_SECRET
from tests.support.servers.script import Script
from toolgate_proxy import state
from toolgate_proxy.litellm_host import auth
from toolgate_proxy.litellm_host.routing import fallbacks, model_route
from toolgate_proxy.litellm_host.routing.model_route import ModelRoutes
from toolgate_proxy.litellm_host.routing.selection import Selection
from toolgate_proxy.routing.prefix_affinity import PrefixAffinity
from toolgate_proxy.settings import Settings


@asynccontextmanager
async def own_route(
    backend: FakeBackend, monkeypatch: pytest.MonkeyPatch, **changes: Any
) -> AsyncIterator[Gateway]:
    """Yield a gateway with the backend. `changes`: of its settings."""
    reset_litellm(monkeypatch)
    settings = Settings(
        backend_url=backend.url,
        backend_key=SecretStr(KEY),
        key_secret=SecretStr(KEY_SECRET),
        redis_url=None,
        limits_without_redis="open",
        keepalive_seconds=TICK,
        route="auto",
        **changes,
    )
    here = state.GatewayState(settings)
    known, affinity = ModelRoutes(settings), PrefixAffinity(here.deployments)
    selection = Selection(here.deployments, affinity)
    state.gateway.cache_clear()
    monkeypatch.setattr(state, "GatewayState", lambda _: here)
    monkeypatch.setattr(fallbacks, "selection", lambda: selection)
    monkeypatch.setattr(model_route, "model_routes", lambda: known)
    monkeypatch.setattr(proxy_server, "master_key", MASTER)
    monkeypatch.setattr(proxy_server, "user_custom_auth", auth.authenticate)
    use(monkeypatch, ours(backend))
    backend.scripts["hi"] = Script(("Hello there",))
    yield Gateway(here, backend)
    await here.aclose()
    state.gateway.cache_clear()
