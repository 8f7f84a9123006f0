"""LiteLLM's configuration file, looked through before LiteLLM starts on it.

LiteLLM takes what it does not know in silence: a misspelt key, a variable that is not set, a line
that is missing. What this gateway promises hangs on some of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import yaml

SECTIONS = ("model_list", "litellm_settings", "router_settings", "general_settings")
"""Those that matter here; LiteLLM has more, so only what is nearly one of them is refused."""
SECRETS = ("api_key", "master_key", "database_url", "password", "redis_password")
SHORTEST_SECRET = 8
"""Characters; what is shorter is a placeholder: `none`, `EMPTY`."""
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
"""By which LiteLLM chooses among the deployments that answer."""
BLIND = ("usage-based-routing", "provider-budget-routing")
"""By these it asks nobody which do (litellm/router.py:13790)."""


class BadConfig(Exception):
    """The message names the file and the line."""


@dataclass(frozen=True)
class _Found:
    line: int
    problem: str


def check(path: Path, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Raises BadConfig. Returns what may be meant as it stands, and is worth a warning."""
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise BadConfig(f"{path}, line {line}: {error.problem}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"{path} can't be read: {type(error).__name__}.") from error
    for found in _problems(root, environment):
        raise BadConfig(f"{path}, line {found.line}: {found.problem}")
    return [f"{path}, line {found.line}: {found.problem}" for found in _doubts(root)]


def _problems(root: yaml.Node | None, environment: Mapping[str, str]) -> Iterator[_Found]:
    if not isinstance(root, yaml.MappingNode):
        yield _Found(1, "this must be `name: value` pairs, `model_list` among them.")
        return
    for name, node in root.value:
        meant = get_close_matches(name.value, SECTIONS, n=1)
        if meant and name.value != meant[0]:
            yield _Found(_line(name), f"{name.value!r} is not known; {meant[0]!r} is.")
        yield from _secrets(node, environment)
    models = _get(root, "model_list")
    if not isinstance(models, yaml.SequenceNode) or not models.value:
        yield _Found(_line(models or root), "`model_list` must be a list of models.")
        return
    for model in models.value:
        name, params = _get(model, "model_name"), _get(model, "litellm_params")
        target = _get(params, "model")
        if name is None or target is None:
            yield _Found(_line(model), "a model needs `model_name` and `litellm_params.model`.")
        elif _text(target).startswith(PROVIDER) and HANDLER not in _texts(
            _get(root, "litellm_settings", "custom_provider_map")
        ):
            yield _Found(
                _line(target),
                "`toolgate/…` takes `custom_provider_map` in `litellm_settings`, with the provider "
                f"`toolgate` and the custom_handler `{HANDLER}`.",
            )
        weight = _get(params, "weight")
        if weight is not None and weight.tag not in NUMBERS:
            yield _Found(_line(weight), "`weight` must be a number.")
    for strategy in _strategies(root):
        if _text(strategy) not in (*STRATEGIES, *BLIND, "priority"):
            known = ", ".join(STRATEGIES)
            yield _Found(
                _line(strategy), f"`routing_strategy` {_text(strategy)!r} is not one of {known}."
            )
    general = _get(root, "general_settings")
    if _get(general, "master_key") is None and not environment.get("LITELLM_MASTER_KEY"):
        yield _Found(
            _line(general or root),
            "`general_settings.master_key` is missing: without it anyone would be let in. "
            "Set it to os.environ/TOOLGATE_MASTER_KEY.",
        )
    auth = _get(general, "custom_auth")
    if auth is not None and _text(auth) == AUTH:
        for section, name in (
            ("general_settings", "custom_auth_run_common_checks"),
            ("litellm_settings", "enable_post_custom_auth_checks"),
        ):
            if _text(_get(root, section, name)).lower() != "true":
                yield _Found(
                    _line(auth),
                    f"virtual keys are held to their models only with `{name}: true` in "
                    f"`{section}`.",
                )


def _secrets(node: yaml.Node, environment: Mapping[str, str]) -> Iterator[_Found]:
    """Secrets that stand in the file, and variables that are not set."""
    for name, value in _scalars(node):
        text = _text(value)
        if text.startswith(ENVIRONMENT):
            variable = text.removeprefix(ENVIRONMENT)
            if not environment.get(variable) and name not in ("api_base", "api_key"):
                yield _Found(_line(value), f"`{name}`: the variable {variable} is not set.")
        elif name in SECRETS and len(text) >= SHORTEST_SECRET:
            yield _Found(
                _line(value),
                f"`{name}`: a secret stands here in clear. Put it into the environment, and "
                f"`{ENVIRONMENT}NAME` here.",
            )


def _doubts(root: yaml.Node | None) -> Iterator[_Found]:
    router = _get(root, "router_settings")
    if _text(_get(router, "disable_cooldowns")).lower() != "true":
        yield _Found(
            _line(router or root),
            "without `router_settings.disable_cooldowns: true` one answer of 404 takes a model's "
            "deployment away from everyone for a while.",
        )
    for strategy in _strategies(root):
        if _text(strategy) in BLIND:
            yield _Found(
                _line(strategy),
                f"`{_text(strategy)}` chooses without asking which backends answer; one of "
                f"{', '.join(STRATEGIES)} does.",
            )
    if _text(_get(root, "general_settings", "cancel_on_disconnect")).lower() != "true":
        yield _Found(
            _line(_get(root, "general_settings") or root),
            "without `general_settings.cancel_on_disconnect: true` a backend goes on for clients "
            "that have hung up.",
        )


def _strategies(root: yaml.Node | None) -> Iterator[yaml.Node]:
    """Of all models, and of groups of them."""
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
    """Every value in it, with the name that it stands under."""
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
