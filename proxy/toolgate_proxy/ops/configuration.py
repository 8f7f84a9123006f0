"""Checks before the gateway starts, of LiteLLM's configuration file and the TOOLGATE_ variables.

LiteLLM checks its own fields. The checks of its file find what would break the gateway's
guarantees, or make a Toolgate model unusable, without an error of LiteLLM's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..request_fields import nearest
from ..settings import Settings
from ..yaml_files import BadFile, read_yaml
from . import CommandFailed

ENVIRONMENT = "os.environ/"
"""Beginning of a value that LiteLLM reads from an environment variable."""
PROVIDER = "toolgate/"
"""Beginning of the name of a Toolgate model."""
DEFAULT = "TOOLGATE_BACKEND_URL"
"""Setting with the default of `api_base`."""
SCHEMES = ("http://", "https://", "dns+http://", "dns+https://")
HANDLER = "toolgate_proxy.provider.toolgate"
AUTH = "toolgate_proxy.auth.authenticate"
AUTH_CHECKS = (
    ("general_settings", "custom_auth_run_common_checks"),
    ("litellm_settings", "enable_post_custom_auth_checks"),
)
MANAGERS = [(each, "key_management_system") for each in ("general_settings", "litellm_settings")]
"""Where a secret manager is configured, which LiteLLM asks for variables first."""


def check(path: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Raise CommandFailed for the first error, with the file and the place."""
    try:
        root = read_yaml(path)
    except BadFile as error:
        raise CommandFailed(str(error)) from error
    if not isinstance(root, dict):
        raise CommandFailed(f"{path}: expected a mapping with the field `model_list`.")
    for place, message in _errors(root, environment):
        raise CommandFailed(f"{path}, {place}: {message}")


def _errors(root: Any, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the places and the errors."""
    variables_section = _get(root, "environment_variables")
    configured = variables_section if isinstance(variables_section, dict) else {}
    variables = {**environment, **{str(name): _text(value) for name, value in configured.items()}}
    elsewhere = any(_get(root, *names) is not None for names in MANAGERS)

    def found(text: str) -> tuple[str | None, str]:
        """Return the value of a field with this text as LiteLLM finds it, None if a secret manager
        may have it, and the name of the variable that the field refers to, or ""."""
        name = text.removeprefix(ENVIRONMENT)
        if name == text:
            return text, ""
        return variables.get(name) or (None if elsewhere else ""), name

    models = _items(_get(root, "model_list"))
    if not models:
        yield "model_list", "it must be a list of models, not empty."
    providers = _items(_get(root, "litellm_settings", "custom_provider_map"))
    handlers = [_text(_get(each, "custom_handler")) for each in providers]
    for at, model in enumerate(models):
        place = f"model_list[{at}]"
        target = _get(model, "litellm_params", "model")
        if _get(model, "model_name") is None or target is None:
            yield place, "the model requires `model_name` and `litellm_params.model`."
            continue
        if not _text(target).startswith(PROVIDER):
            continue
        place += ".litellm_params"
        if HANDLER not in handlers:
            entry = f"with `provider: toolgate` and `custom_handler: {HANDLER}`"
            needs = "an entry in `litellm_settings.custom_provider_map`"
            yield f"{place}.model", f"a `toolgate/…` model requires {needs} {entry}."
        address, weight = (_get(model, "litellm_params", each) for each in ("api_base", "weight"))
        if address is not None:
            url, variable = found(_text(address))
            subject = f"the variable {variable}" if variable else "it"
            if url == "" and variable != DEFAULT:  # requests would be sent to the default address
                yield f"{place}.api_base", f"{subject} is not set."
            elif url and not url.startswith(SCHEMES):
                meant = f"Write http://{url} or https://…."
                yield f"{place}.api_base", f"{subject} is {url!r}, which has no scheme. {meant}"
        if weight is not None and (isinstance(weight, bool) or not isinstance(weight, int | float)):
            yield f"{place}.weight", "it must be a number."
    # What would leave requests, or the models of virtual keys, without a check:
    master = _text(_get(root, "general_settings", "master_key"))
    key, variable = found(master or "os.environ/LITELLM_MASTER_KEY")
    if key == "":
        missing = "it is missing" + (f" ({variable} is not set)" if master else "")
        why = "Without a master key the gateway would accept all requests"
        meant = f"{why}. Set it to os.environ/TOOLGATE_MASTER_KEY."
        yield "general_settings.master_key", f"{missing}. {meant}"
    auth = _text(_get(root, "general_settings", "custom_auth"))
    for section, name in AUTH_CHECKS:
        if auth == AUTH and _text(_get(root, section, name)).lower() != "true":
            why = "Without it LiteLLM does not check the models of virtual keys."
            yield "general_settings.custom_auth", f"it requires `{section}.{name}: true`. {why}"


def _get(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    """Return a value that is no list and no mapping as a text; "" for null."""
    return "" if isinstance(value, dict | list | None) else str(value)


PREFIX = "TOOLGATE_"
OTHERS = frozenset({
    "ADAPTER", "CACHE_MB", "DIALECT", "FORCED_DRAFTS", "MAX_GRAMMARS", "MAX_REQUESTS",
    "MEMBER_ORDER", "QUARANTINE_MEMORY_MB",
    "API_KEY", "CONFIG", "MODEL", "PORT", "VERIFY_KEY",
    "CHROMIUM", "HELM", "KEY", "MASK_PATIENCE", "REPOSITORY", "REDIS", "SHARED", "TEST_NIGHTLY",
    "TEST_SAMPLE",
})  # fmt: skip
"""Variables of the backend, of clients, and of tests, without the prefix."""
OF_KUBERNETES = re.compile(r"\w+_SERVICE_(HOST|PORT)(_\w+)?|\w+_PORT(_\d+_(TCP|UDP)(_\w+)?)?")
"""Variables that Kubernetes sets for the services of a release called `toolgate`."""


def unknown_settings(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return a warning for each TOOLGATE_ variable that no part of Toolgate reads."""
    known = {name.upper() for name in Settings.model_fields}
    warnings = []
    for variable in sorted(environment):
        name = variable.removeprefix(PREFIX)
        if name in {variable, *known, *OTHERS} or OF_KUBERNETES.fullmatch(name):
            continue
        near = nearest(name, known, 0.7)
        hint = f"Did you mean {PREFIX}{near}?" if near else "docs/reference/settings.md lists all."
        warnings.append(f"{variable} is not a setting: it has no effect. {hint}")
    return warnings


def invalid_settings(error: Exception) -> list[str]:
    """Return a line for each invalid variable, without its value, which may be a secret. Empty if
    the error is not that of `settings()`."""
    if not isinstance(error, ValidationError) or error.title != Settings.__name__:
        return []
    return [
        f"{PREFIX}{'_'.join(map(str, each['loc'])).upper()}: "
        + each["msg"].removeprefix("Value error, ")
        for each in error.errors(include_input=False, include_url=False)
    ]
