"""Environment variables and secrets in LiteLLM's configuration file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import yaml

from .config_nodes import ENVIRONMENT, Finding, get, items_of, line_of, members_of, scalars, text_of

PROVIDER = "toolgate/"
SECRETS = ("api_key", "master_key", "database_url", "password", "redis_password")
MIN_SECRET_LENGTH = 8
"""Characters. Shorter values are placeholders such as `none` or `EMPTY`."""
DEFAULTS = {"api_base": "TOOLGATE_BACKEND_URL", "api_key": "TOOLGATE_BACKEND_KEY"}
"""Fields of a Toolgate model, and the setting whose default they have if the variable of the same
name is not set."""
LIKE_ENVIRONMENT = "os.environ"
SETTINGS, MANAGER = ("general_settings", "litellm_settings"), "key_management_system"
"""Where a secret manager is configured, which LiteLLM asks for variables first."""


def secrets(root: yaml.Node, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Secrets in the file itself, and environment variables that are not set, except for those of
    single models (`unset_of_models`)."""
    models = _of_models(root)
    for name, value in scalars(root):
        text = text_of(value)
        if text.startswith(ENVIRONMENT):
            unset = "" if id(value) in models else _unset(root, name, value, environment)
            if unset:
                yield Finding(line_of(value), unset)
        elif text.startswith(LIKE_ENVIRONMENT):
            yield Finding(
                line_of(value),
                f"`{name}` is {text!r}. A reference to an environment variable is written "
                f"{ENVIRONMENT}NAME.",
            )
        elif name in SECRETS and len(text) >= MIN_SECRET_LENGTH:
            yield Finding(
                line_of(value),
                f"`{name}` has a secret in clear text. Move it to an environment variable, and set "
                f"`{name}: {ENVIRONMENT}NAME`.",
            )


def unset_of_models(root: yaml.Node | None, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Environment variables of single models that are not set: the gateway serves the others."""
    models = _of_models(root)
    for name, value in scalars(root) if root is not None else ():
        if id(value) in models and (unset := _unset(root, name, value, environment)):
            yield Finding(line_of(value), f"{unset} The model's requests are sent without it.")


def _of_models(root: yaml.Node | None) -> set[int]:
    """The identities of the values that concern one model only: all API keys, and all fields of
    other providers' models."""
    found = {id(value) for name, value in scalars(root) if name == "api_key"} if root else set()
    for model in items_of(get(root, "model_list")):
        params = get(model, "litellm_params")
        if params is not None and not text_of(get(params, "model")).startswith(PROVIDER):
            found |= {id(value) for _, value in scalars(params)}
    return found


def _unset(
    root: yaml.Node | None, name: str, value: yaml.Node, environment: Mapping[str, str]
) -> str:
    if any(get(root, section, MANAGER) is not None for section in SETTINGS):
        return ""  # the secret manager may have it
    text = text_of(value)
    variable = text.removeprefix(ENVIRONMENT)
    if not text.startswith(ENVIRONMENT) or environment.get(variable) or variable in _set_in(root):
        return ""
    if DEFAULTS.get(name) == variable and any(each is value for each in _of_toolgate(root, name)):
        return ""
    return f"`{name}` refers to the environment variable {variable}, which is not set."


def _set_in(root: yaml.Node | None) -> Collection[str]:
    """The variables that LiteLLM sets from the file."""
    return {text_of(name) for name, _ in members_of(get(root, "environment_variables"))}


def _of_toolgate(root: yaml.Node | None, name: str) -> Iterator[yaml.Node]:
    """The field `name` of each Toolgate model."""
    for model in items_of(get(root, "model_list")):
        params = get(model, "litellm_params")
        node = get(params, name)
        if node is not None and text_of(get(params, "model")).startswith(PROVIDER):
            yield node
