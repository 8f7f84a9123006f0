"""LiteLLM's module of the proxy, whose attributes are its state."""

from __future__ import annotations

from typing import Any


def litellm_proxy() -> Any:
    """Return LiteLLM's module with the state of its proxy. Importing it reads the environment."""
    from litellm.proxy import proxy_server

    return proxy_server


def has_database() -> bool:
    """Return whether LiteLLM's database holds keys, users and settings."""
    return litellm_proxy().prisma_client is not None
