"""The providers that LiteLLM's configuration names, besides Toolgate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import litellm

from .deployments.router import PROVIDER, rows_of

SECTIONS = (
    "assistant_settings",
    "files_settings",
    "finetune_settings",
    "search_tools",
    "vector_store_registry",
)
"""Sections of the configuration that name providers, at any depth."""
FIELDS = frozenset({"custom_llm_provider", "search_provider"})


def named_providers() -> frozenset[str]:
    """Return LiteLLM's names of the providers of models, and of the sections for other APIs."""
    from litellm.proxy import proxy_server  # importing it reads the environment

    found = {_provider(row["litellm_params"]) for row in rows_of(None)}
    config: Mapping[str, Any] = proxy_server.proxy_config.get_config_state()
    for section in SECTIONS:
        found |= {*_providers_in(config.get(section))}
    return frozenset(found - {PROVIDER, ""})


def passed_through(path: str) -> bool:
    """Return whether the configuration has a target of its own for the path."""
    from litellm.proxy import proxy_server

    endpoints = proxy_server.general_settings.get("pass_through_endpoints") or ()
    prefixes = [each.get("path") for each in endpoints if isinstance(each, Mapping)]
    return any(isinstance(each, str) and path.startswith(each) for each in prefixes)


def _provider(params: Mapping[str, Any]) -> str:
    """Return the provider of a deployment; "" if LiteLLM finds none."""
    given = params.get("custom_llm_provider")
    if isinstance(given, str):
        return given
    if params["model"].startswith(f"{PROVIDER}/"):
        return PROVIDER
    try:
        _, provider, _, _ = litellm.get_llm_provider(
            model=params["model"], api_base=params.get("api_base")
        )
    except litellm.BadRequestError:
        return ""
    return str(provider)


def _providers_in(value: Any) -> Iterator[str]:
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, Mapping):
            yield from (each[name] for name in FIELDS & each.keys() if isinstance(each[name], str))
            pending.extend(each.values())
        elif isinstance(each, list):
            pending.extend(each)
