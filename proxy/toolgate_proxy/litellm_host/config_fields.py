"""The names of fields in LiteLLM's configuration file, as LiteLLM itself defines them."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType

from ..api.chat_completions.parameters import BY_NAME

UNDECLARED = frozenset({"custom_auth_run_common_checks", "database_connection_pool_timeout"})
"""Fields of `general_settings` that LiteLLM reads without declaring them: one that the gateway
uses, and one that looks like another."""

FIELD = re.compile(
    r"""litellm_settings(?:\.get\(|\[)["'](\w+)["']|["'](\w+)["'] in litellm_settings"""
    r"""|\bkey == ["'](\w+)["']"""
)
"""Where LiteLLM's server reads a field of `litellm_settings`."""
OPTIONAL = re.compile(r"""getattr\(\s*litellm,\s*["'](\w+)["']""")
"""Where LiteLLM reads a variable that may not exist."""


@dataclass(frozen=True)
class ConfigFields:
    general: frozenset[str]
    """Of `general_settings`. LiteLLM reads some more."""
    router: frozenset[str]
    """Of `router_settings`."""
    litellm: frozenset[str]
    """Of `litellm_settings`."""
    params: frozenset[str]
    """Of the `litellm_params` of a Toolgate model: LiteLLM's, and default request parameters.
    LiteLLM reads some more."""


def config_fields() -> ConfigFields:
    """Read the names from LiteLLM, whose import takes seconds."""
    from litellm import Router
    from litellm.proxy._types import ConfigGeneralSettings
    from litellm.types.router import GenericLiteLLMParams

    router = frozenset(inspect.signature(Router.__init__).parameters) - {"self", "model_list"}
    return ConfigFields(
        general=frozenset(ConfigGeneralSettings.model_fields) | UNDECLARED,
        router=router,
        litellm=_litellm_settings(),
        params=frozenset(GenericLiteLLMParams.model_fields) | {"model"} | frozenset(BY_NAME),
    )


@cache
def _litellm_settings() -> frozenset[str]:
    """Return the fields of `litellm_settings`. LiteLLM sets each field as a variable of its module,
    except for those that its server reads by their names. Some of the variables exist only if they
    are set. The files are read and not imported, which would take ten seconds."""
    import litellm

    package = Path(litellm.__file__).parent
    server = (package / "proxy" / "proxy_server.py").read_text(encoding="utf-8")
    read = {name for found in FIELD.findall(server) for name in found}
    for path in package.rglob("*.py"):
        read |= {*OPTIONAL.findall(path.read_text(encoding="utf-8"))}
    variables = {
        name
        for name, value in vars(litellm).items()
        if not isinstance(value, ModuleType | FunctionType | type)
    }
    return frozenset(
        name for name in {*variables, *litellm.__annotations__, *read} if name[:1].isalpha()
    )
