"""LiteLLM's real Router in this process, with the globals of LiteLLM as they are at first."""

from typing import Any

import litellm
import pytest
from litellm.proxy import proxy_server
from litellm.router import Router

from toolgate_proxy.litellm_host.routing.router import registry
from toolgate_proxy.provider import toolgate

Row = dict[str, Any]
CALLBACKS = (
    "callbacks",
    "input_callback",
    "service_callback",
    "success_callback",
    "failure_callback",
    "_async_input_callback",
    "_async_success_callback",
    "_async_failure_callback",
)
"""LiteLLM's lists of callbacks, which routers add to."""


def reset_litellm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our provider is registered, and no callback is; LiteLLM's own lists come back at the end."""
    for name in CALLBACKS:
        monkeypatch.setattr(litellm, name, [])
    monkeypatch.setattr(litellm, "cache", None)
    ours = {"provider": "toolgate", "custom_handler": toolgate}
    monkeypatch.setattr(litellm, "custom_provider_map", [ours])
    monkeypatch.setattr(proxy_server, "general_settings", {})
    monkeypatch.setattr(proxy_server, "prisma_client", None)
    litellm.utils.custom_llm_setup()


def row(name: str, *, group: str = "tiny", info: Row | None = None, **params: Any) -> Row:
    """A deployment of ours at the backend `name`, which is its id, too."""
    target = {"model": "toolgate/tiny", "api_base": f"http://{name}", "api_key": "k"}
    return {
        "model_name": group,
        "litellm_params": target | params,
        "model_info": {"id": name} | (info or {}),
    }


def foreign(name: str, **params: Any) -> Row:
    """A deployment of another provider."""
    target = {"model": f"openai/{name.replace('openai/', '')}", "api_key": "k"}
    return {"model_name": name, "litellm_params": target | params}


def made(*rows: Row, **settings: Any) -> Router:
    """As `toolgate proxy` configures it: without retries and cooldowns of the router's."""
    return Router(
        model_list=list(rows), **({"num_retries": 0, "disable_cooldowns": True} | settings)
    )


def use(monkeypatch: pytest.MonkeyPatch, *rows: Row, **settings: Any) -> Router:
    """Makes it the proxy's router."""
    router = made(*rows, **settings)
    monkeypatch.setattr(proxy_server, "llm_router", router)
    monkeypatch.setattr(proxy_server, "llm_model_list", registry().deployments())
    return router
