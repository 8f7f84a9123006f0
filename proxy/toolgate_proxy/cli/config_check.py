"""Checks LiteLLM's configuration file before the gateway starts.

LiteLLM ignores misspelt fields, environment variables that are not set, and missing fields without
an error. Some of them are necessary for the gateway's guarantees.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import yaml

SECTIONS = ("model_list", "litellm_settings", "router_settings", "general_settings")
"""Sections that the checks need. LiteLLM has more, so only near misses of these are refused."""
SECRETS = ("api_key", "master_key", "database_url", "password", "redis_password")
MIN_SECRET_LENGTH = 8
"""Characters. Shorter values are placeholders such as `none` or `EMPTY`."""
ENVIRONMENT = "os.environ/"
NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
PROVIDER = "toolgate/"
HANDLER = "toolgate_proxy.provider.toolgate"
AUTH = "toolgate_proxy.auth.authenticate"
STRATEGIES = (
    "simple-shuffle",
    "least-busy",
    "usage-based-routing-v2",
    "latency-based-routing",
    "cost-based-routing",
)
"""Strategies with which LiteLLM chooses among the healthy deployments."""
HEALTH_UNAWARE = ("usage-based-routing", "provider-budget-routing")
"""Strategies with which LiteLLM does not filter by health
(`Router._async_get_available_deployment`)."""


class BadConfig(Exception):
    """The message has the file and the line."""


@dataclass(frozen=True)
class _Finding:
    line: int
    message: str


def check(path: Path, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Returns warnings. Raises BadConfig for the first error."""
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise BadConfig(f"{path}, line {line}: invalid YAML: {error.problem}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(
            f"{path} can't be read ({type(error).__name__}). Check its path, permissions and "
            "encoding (UTF-8)."
        ) from error
    for each in _errors(root, environment):
        raise BadConfig(f"{path}, line {each.line}: {each.message}")
    return [f"{path}, line {each.line}: {each.message}" for each in _warnings(root)]


def _errors(root: yaml.Node | None, environment: Mapping[str, str]) -> Iterator[_Finding]:
    if not isinstance(root, yaml.MappingNode):
        yield _Finding(1, "expected a mapping with the field `model_list`.")
        return
    for name, node in root.value:
        meant = get_close_matches(name.value, SECTIONS, n=1)
        if meant and name.value != meant[0]:
            yield _Finding(_line(name), f"unknown field {name.value!r}. Did you mean {meant[0]!r}?")
        yield from _secrets(node, environment)
    models = _get(root, "model_list")
    if not isinstance(models, yaml.SequenceNode) or not models.value:
        yield _Finding(_line(models or root), "`model_list` must be a list of models, not empty.")
        return
    for model in models.value:
        name, params = _get(model, "model_name"), _get(model, "litellm_params")
        target = _get(params, "model")
        if name is None or target is None:
            yield _Finding(
                _line(model), "the model requires `model_name` and `litellm_params.model`."
            )
        elif _text(target).startswith(PROVIDER) and HANDLER not in _texts(
            _get(root, "litellm_settings", "custom_provider_map")
        ):
            yield _Finding(
                _line(target),
                "a `toolgate/…` model requires an entry in `litellm_settings.custom_provider_map` "
                f"with `provider: toolgate` and `custom_handler: {HANDLER}`.",
            )
        weight = _get(params, "weight")
        if weight is not None and weight.tag not in NUMBERS:
            yield _Finding(_line(weight), "`weight` must be a number.")
    for strategy in _strategies(root):
        if _text(strategy) not in (*STRATEGIES, *HEALTH_UNAWARE, "priority"):
            known = ", ".join(STRATEGIES)
            yield _Finding(
                _line(strategy),
                f"`routing_strategy` is {_text(strategy)!r}, but must be one of {known}.",
            )
    general = _get(root, "general_settings")
    if _get(general, "master_key") is None and not environment.get("LITELLM_MASTER_KEY"):
        yield _Finding(
            _line(general or root),
            "`general_settings.master_key` is missing. Without a master key the gateway would "
            "accept all requests. Set it to os.environ/TOOLGATE_MASTER_KEY.",
        )
    auth = _get(general, "custom_auth")
    if auth is not None and _text(auth) == AUTH:
        for section, name in (
            ("general_settings", "custom_auth_run_common_checks"),
            ("litellm_settings", "enable_post_custom_auth_checks"),
        ):
            if _text(_get(root, section, name)).lower() != "true":
                yield _Finding(
                    _line(auth),
                    f"`custom_auth` requires `{section}.{name}: true`. Without it LiteLLM does not "
                    "check the models of virtual keys.",
                )


def _secrets(node: yaml.Node, environment: Mapping[str, str]) -> Iterator[_Finding]:
    """Secrets in the file itself, and environment variables that are not set."""
    for name, value in _scalars(node):
        text = _text(value)
        if text.startswith(ENVIRONMENT):
            variable = text.removeprefix(ENVIRONMENT)
            if not environment.get(variable) and name not in ("api_base", "api_key"):
                yield _Finding(
                    _line(value),
                    f"`{name}` refers to the environment variable {variable}, which is not set.",
                )
        elif name in SECRETS and len(text) >= MIN_SECRET_LENGTH:
            yield _Finding(
                _line(value),
                f"`{name}` has a secret in clear text. Move it to an environment variable, and set "
                f"`{name}: {ENVIRONMENT}NAME`.",
            )


def _warnings(root: yaml.Node | None) -> Iterator[_Finding]:
    router = _get(root, "router_settings")
    if _text(_get(router, "disable_cooldowns")).lower() != "true":
        yield _Finding(
            _line(router or root),
            "`router_settings.disable_cooldowns` is not true. One 404 response then removes a "
            "deployment for all clients for a while.",
        )
    for strategy in _strategies(root):
        if _text(strategy) in HEALTH_UNAWARE:
            yield _Finding(
                _line(strategy),
                f"`routing_strategy: {_text(strategy)}` ignores the health of deployments. These "
                f"strategies do not: {', '.join(STRATEGIES)}.",
            )
    if _text(_get(root, "general_settings", "cancel_on_disconnect")).lower() != "true":
        yield _Finding(
            _line(_get(root, "general_settings") or root),
            "`general_settings.cancel_on_disconnect` is not true. Backends then continue requests "
            "whose clients have disconnected.",
        )


def _strategies(root: yaml.Node | None) -> Iterator[yaml.Node]:
    """The routing strategy of all models, and those of routing groups."""
    router = _get(root, "router_settings")
    groups = _get(router, "routing_groups")
    for holder in (router, *(groups.value if isinstance(groups, yaml.SequenceNode) else ())):
        strategy = _get(holder, "routing_strategy")
        if strategy is not None and not _text(strategy).startswith(ENVIRONMENT):
            yield strategy


def _get(node: yaml.Node | None, *names: str) -> yaml.Node | None:
    for name in names:
        if not isinstance(node, yaml.MappingNode):
            return None
        node = next((value for key, value in node.value if key.value == name), None)
    return node


def _scalars(node: yaml.Node, name: str = "") -> Iterator[tuple[str, yaml.Node]]:
    """All scalars in a node, with the names of their fields."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _scalars(value, str(key.value))
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _scalars(value, name)
    else:
        yield name, node


def _texts(node: yaml.Node | None) -> list[str]:
    return [] if node is None else [_text(value) for _, value in _scalars(node)]


def _text(node: yaml.Node | None) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _line(node: yaml.Node | None) -> int:
    return node.start_mark.line + 1 if node is not None else 1
