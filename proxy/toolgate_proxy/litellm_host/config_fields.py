"""The names of fields in LiteLLM's configuration file, as LiteLLM itself defines them."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from ..api.chat_completions.parameters import BY_NAME

UNDECLARED = frozenset({"custom_auth_run_common_checks", "database_connection_pool_timeout"})
"""Fields of `general_settings` that LiteLLM reads without declaring them: one that the gateway
uses, and one that looks like another."""


@dataclass(frozen=True)
class ConfigFields:
    general: frozenset[str]
    """Of `general_settings`. LiteLLM reads some more."""
    router: frozenset[str]
    """Of `router_settings`."""
    params: frozenset[str]
    """Of the `litellm_params` of a Toolgate model: LiteLLM's, and default request parameters.
    LiteLLM reads some more."""


def config_fields() -> ConfigFields:
    """Imports LiteLLM, which takes seconds."""
    from litellm import Router
    from litellm.proxy._types import ConfigGeneralSettings
    from litellm.types.router import GenericLiteLLMParams

    router = frozenset(inspect.signature(Router.__init__).parameters) - {"self", "model_list"}
    return ConfigFields(
        general=frozenset(ConfigGeneralSettings.model_fields) | UNDECLARED,
        router=router,
        params=frozenset(GenericLiteLLMParams.model_fields) | {"model"} | frozenset(BY_NAME),
    )
