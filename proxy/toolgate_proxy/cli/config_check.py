"""Checks LiteLLM's configuration file before the gateway starts.

LiteLLM ignores misspelt fields, environment variables that are not set, and missing fields without
an error. Some of them are necessary for the gateway's guarantees.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from itertools import chain
from pathlib import Path

import yaml

from ..litellm_host.config_fields import ConfigFields, config_fields
from ..yaml_nodes import InvalidYaml, compose
from .config_budgets import without_database
from .config_environment import PROVIDER, secrets, unset_of_models
from .config_models import unknown_models
from .config_names import misspelt, without_effect, wrong_params
from .config_nodes import ENVIRONMENT, Finding, get, items_of, line_of, text_of, texts_of

SECTIONS = ("model_list", "litellm_settings", "router_settings", "general_settings")
"""Sections that the checks need. LiteLLM has more, so only near misses of these are refused."""
NEAR = 0.87
"""Similarity from which a section is a near miss."""
NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
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


def check(
    path: Path,
    environment: Mapping[str, str] = os.environ,
    fields: Callable[[], ConfigFields] = config_fields,
) -> list[str]:
    """Returns warnings. Raises BadConfig for the first error. `fields` is called after the checks
    that need no names of fields."""
    try:
        root = compose(path.read_text(encoding="utf-8"))
    except InvalidYaml as error:
        raise BadConfig(f"{path}, line {error.line}: invalid YAML: {error.problem}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(
            f"{path} can't be read ({type(error).__name__}). Check its path, permissions and "
            "encoding (UTF-8)."
        ) from error
    for each in _errors(root, environment):
        raise BadConfig(f"{path}, line {each.line}: {each.message}")
    known = fields()
    for each in _names(root, known, environment):
        raise BadConfig(f"{path}, line {each.line}: {each.message}")
    warnings = chain(
        _warnings(root),
        without_effect(root, known),
        unset_of_models(root, environment),
        without_database(root, environment),
    )
    return [f"{path}, line {each.line}: {each.message}" for each in warnings]


def _errors(root: yaml.Node | None, environment: Mapping[str, str]) -> Iterator[Finding]:
    if not isinstance(root, yaml.MappingNode):
        yield Finding(1, "expected a mapping with the field `model_list`.")
        return
    for name, _ in root.value:
        meant = get_close_matches(name.value, SECTIONS, n=1, cutoff=NEAR)
        if meant and name.value != meant[0]:
            yield Finding(
                line_of(name), f"unknown field {name.value!r}. Did you mean {meant[0]!r}?"
            )
    yield from secrets(root, environment)
    models = get(root, "model_list")
    if not isinstance(models, yaml.SequenceNode) or not models.value:
        yield Finding(line_of(models or root), "`model_list` must be a list of models, not empty.")
        return
    for model in models.value:
        name, params = get(model, "model_name"), get(model, "litellm_params")
        target = get(params, "model")
        if name is None or target is None:
            yield Finding(
                line_of(model), "the model requires `model_name` and `litellm_params.model`."
            )
        elif text_of(target).startswith(PROVIDER) and HANDLER not in texts_of(
            get(root, "litellm_settings", "custom_provider_map")
        ):
            yield Finding(
                line_of(target),
                "a `toolgate/…` model requires an entry in `litellm_settings.custom_provider_map` "
                f"with `provider: toolgate` and `custom_handler: {HANDLER}`.",
            )
        weight = get(params, "weight")
        if weight is not None and weight.tag not in NUMBERS:
            yield Finding(line_of(weight), "`weight` must be a number.")
    yield from unknown_models(root)
    for strategy in _strategies(root):
        if text_of(strategy) not in (*STRATEGIES, *HEALTH_UNAWARE, "priority"):
            known = ", ".join(STRATEGIES)
            yield Finding(
                line_of(strategy),
                f"`routing_strategy` is {text_of(strategy)!r}, but must be one of {known}.",
            )
    general = get(root, "general_settings")
    if get(general, "master_key") is None and not environment.get("LITELLM_MASTER_KEY"):
        yield Finding(
            line_of(general or root),
            "`general_settings.master_key` is missing. Without a master key the gateway would "
            "accept all requests. Set it to os.environ/TOOLGATE_MASTER_KEY.",
        )
    auth = get(general, "custom_auth")
    if auth is not None and text_of(auth) == AUTH:
        for section, name in (
            ("general_settings", "custom_auth_run_common_checks"),
            ("litellm_settings", "enable_post_custom_auth_checks"),
        ):
            if text_of(get(root, section, name)).lower() != "true":
                yield Finding(
                    line_of(auth),
                    f"`custom_auth` requires `{section}.{name}: true`. Without it LiteLLM does not "
                    "check the models of virtual keys.",
                )


def _names(
    root: yaml.Node | None, known: ConfigFields, environment: Mapping[str, str]
) -> Iterator[Finding]:
    """Names of fields, which LiteLLM knows, and addresses."""
    yield from misspelt(root, known)
    for model in items_of(get(root, "model_list")):
        params = get(model, "litellm_params")
        if text_of(get(params, "model")).startswith(PROVIDER):
            yield from wrong_params(params, known, environment)


def _warnings(root: yaml.Node | None) -> Iterator[Finding]:
    router = get(root, "router_settings")
    if text_of(get(router, "disable_cooldowns")).lower() != "true":
        yield Finding(
            line_of(router or root),
            "`router_settings.disable_cooldowns` is not true. One 404 response then removes a "
            "deployment for all clients for a while.",
        )
    for strategy in _strategies(root):
        if text_of(strategy) in HEALTH_UNAWARE:
            yield Finding(
                line_of(strategy),
                f"`routing_strategy: {text_of(strategy)}` ignores the health of deployments. These "
                f"strategies do not: {', '.join(STRATEGIES)}.",
            )
    if text_of(get(root, "general_settings", "cancel_on_disconnect")).lower() != "true":
        yield Finding(
            line_of(get(root, "general_settings") or root),
            "`general_settings.cancel_on_disconnect` is not true. Backends then continue requests "
            "whose clients have disconnected.",
        )


def _strategies(root: yaml.Node | None) -> Iterator[yaml.Node]:
    """The routing strategy of all models, and those of routing groups."""
    router = get(root, "router_settings")
    groups = get(router, "routing_groups")
    for holder in (router, *items_of(groups)):
        strategy = get(holder, "routing_strategy")
        if strategy is not None and not text_of(strategy).startswith(ENVIRONMENT):
            yield strategy
