"""Checks LiteLLM's configuration file before the gateway starts.

LiteLLM checks its own fields. These checks find what would break the gateway's guarantees, or make
a Toolgate model unusable, without an error of LiteLLM's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from ..yaml_nodes import InvalidYaml, compose
from .output import CommandFailed

ENVIRONMENT = "os.environ/"
"""Beginning of a value that LiteLLM reads from an environment variable."""
PROVIDER = "toolgate/"
"""Beginning of the name of a Toolgate model."""
DEFAULT = "TOOLGATE_BACKEND_URL"
"""Setting with the default of `api_base`."""
SCHEMES = ("http://", "https://", "dns+http://", "dns+https://")
NULL = "tag:yaml.org,2002:null"
NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
HANDLER = "toolgate_proxy.provider.toolgate"
AUTH = "toolgate_proxy.auth.authenticate"
AUTH_CHECKS = (
    ("general_settings", "custom_auth_run_common_checks"),
    ("litellm_settings", "enable_post_custom_auth_checks"),
)
MANAGERS = tuple(
    (section, "key_management_system") for section in ("general_settings", "litellm_settings")
)
"""Where a secret manager is configured, which LiteLLM asks for variables first."""


class BadConfig(CommandFailed):
    """The message has the file and the line."""


def check(path: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Raise BadConfig for the first error."""
    try:
        root = compose(path.read_text(encoding="utf-8"))
    except InvalidYaml as error:
        raise BadConfig(f"{path}, line {error.line}: invalid YAML: {error.problem}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(
            f"{path} can't be read ({type(error).__name__}). Check its path, permissions and "
            "encoding (UTF-8)."
        ) from error
    if not isinstance(root, yaml.MappingNode):
        raise BadConfig(f"{path}, line 1: expected a mapping with the field `model_list`.")
    for node, message in _errors(root, _Variables(root, environment)):
        raise BadConfig(f"{path}, line {node.start_mark.line + 1}: {message}")


Errors = Iterator[tuple[yaml.Node, str]]


class _Variables:
    """The environment variables as LiteLLM finds them."""

    def __init__(self, root: yaml.Node, environment: Mapping[str, str]) -> None:
        section = _get(root, "environment_variables")
        self._values = {**environment, **{_text(n): _text(v) for n, v in _members(section)}}
        self._may_be_elsewhere = any(_get(root, *names) is not None for names in MANAGERS)

    def value(self, text: str) -> tuple[str | None, str]:
        """Return the value of a field with this text, None if a secret manager may have it, and the
        name of the variable that the field refers to, or ""."""
        name = text.removeprefix(ENVIRONMENT)
        if name == text:
            return text, ""
        return self._values.get(name) or (None if self._may_be_elsewhere else ""), name


def _errors(root: yaml.Node, variables: _Variables) -> Errors:
    models = _items(_get(root, "model_list"))
    if not models:
        yield root, "`model_list` must be a list of models, not empty."
    providers = _items(_get(root, "litellm_settings", "custom_provider_map"))
    handlers = [_text(_get(each, "custom_handler")) for each in providers]
    for model in models:
        target = _get(model, "litellm_params", "model")
        if _get(model, "model_name") is None or target is None:
            yield model, "the model requires `model_name` and `litellm_params.model`."
            continue
        if not _text(target).startswith(PROVIDER):
            continue
        if HANDLER not in handlers:
            yield (
                target,
                "a `toolgate/…` model requires an entry in `litellm_settings.custom_provider_map` "
                f"with `provider: toolgate` and `custom_handler: {HANDLER}`.",
            )
        address, weight = (_get(model, "litellm_params", each) for each in ("api_base", "weight"))
        if address is not None:
            yield from _address_errors(address, variables)
        if weight is not None and weight.tag not in NUMBERS:
            yield weight, "`weight` must be a number."
    yield from _key_errors(root, variables)


def _address_errors(node: yaml.Node, variables: _Variables) -> Errors:
    """Find an address without a scheme, and one that is missing: requests would be sent to the
    default address."""
    address, variable = variables.value(_text(node))
    shown = f"`api_base` ({variable})" if variable else "`api_base`"
    if address == "" and variable != DEFAULT:
        yield node, f"{shown} is not set."
    elif address and not address.startswith(SCHEMES):
        yield (
            node,
            f"{shown} is {address!r}, which has no scheme. Write http://{address} or https://….",
        )


def _key_errors(root: yaml.Node, variables: _Variables) -> Errors:
    """Find what would leave requests, or the models of virtual keys, without a check."""
    general = _get(root, "general_settings")
    master = _get(general, "master_key")
    key, variable = variables.value(_text(master) if master else "os.environ/LITELLM_MASTER_KEY")
    if key == "":
        unset = f" ({variable} is not set)" if master else ""
        yield (
            master or general or root,
            f"`general_settings.master_key` is missing{unset}. Without a master key the "
            "gateway would accept all requests. Set it to os.environ/TOOLGATE_MASTER_KEY.",
        )
    auth = _get(general, "custom_auth")
    for section, name in AUTH_CHECKS:
        if auth and _text(auth) == AUTH and _text(_get(root, section, name)).lower() != "true":
            yield (
                auth,
                f"`custom_auth` requires `{section}.{name}: true`. Without it LiteLLM does not "
                "check the models of virtual keys.",
            )


def _get(node: yaml.Node | None, *names: str) -> yaml.Node | None:
    for name in names:
        node = next((value for key, value in _members(node) if key.value == name), None)
    return node


def _items(node: yaml.Node | None) -> list[yaml.Node]:
    """Return the items of a list, and nothing for anything else."""
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _members(node: yaml.Node | None) -> list[tuple[yaml.Node, yaml.Node]]:
    """Return the names and values of a mapping, and nothing for anything else."""
    return node.value if isinstance(node, yaml.MappingNode) else []


def _text(node: yaml.Node | None) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) and node.tag != NULL else ""
