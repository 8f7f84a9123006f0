"""Checks LiteLLM's configuration file before the gateway starts.

LiteLLM ignores misspelt fields, environment variables that are not set, and missing fields without
an error. Some of them are necessary for the gateway's guarantees.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain
from pathlib import Path

import yaml

from ...litellm_host.config_fields import ConfigFields, config_fields
from ...yaml_nodes import InvalidYaml, compose
from ..output import CommandFailed
from .nodes import (
    ENVIRONMENT,
    PROVIDER,
    Finding,
    get,
    is_true,
    items_of,
    meant,
    members_of,
    params_of,
    scalars,
    text_of,
)
from .values import callbacks, secrets, unknown_guardrails, unknown_models, unset, without_database

SECTIONS = ("model_list", "litellm_settings", "router_settings", "general_settings")
"""Sections that the checks need. LiteLLM has more, so only near misses of these are refused."""
NEAR = 0.87
"""Similarity from which a name counts as misspelt. LiteLLM reads some fields that it does not
declare, so other names are not refused."""
SIMILAR = 0.6
"""Similarity from which a name is suggested for another that has no effect."""
SCHEMES = ("http://", "https://")
NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
HANDLER = "toolgate_proxy.provider.toolgate"
HANDLERS = ("litellm_settings", "custom_provider_map")
AUTH = "toolgate_proxy.auth.authenticate"
AUTH_CHECKS = (
    ("general_settings", "custom_auth_run_common_checks"),
    ("litellm_settings", "enable_post_custom_auth_checks"),
)
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


class BadConfig(CommandFailed):
    """The message has the file and the line."""


def check(
    path: Path,
    environment: Mapping[str, str] = os.environ,
    fields: Callable[[], ConfigFields] = config_fields,
) -> list[str]:
    """Return warnings. Raises BadConfig for the first error. `fields` is called after the checks
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
    if not isinstance(root, yaml.MappingNode):
        raise BadConfig(f"{path}, line 1: expected a mapping with the field `model_list`.")
    for each in _errors(root, environment):
        raise BadConfig(f"{path}, line {each.line}: {each.message}")
    known = fields()
    for each in _field_errors(root, known, environment):
        raise BadConfig(f"{path}, line {each.line}: {each.message}")
    warnings = chain(
        _warnings(root),
        _without_effect(root, known),
        unset(root, environment, of_models=True),
        without_database(root, environment),
        unknown_guardrails(root),
    )
    return [f"{path}, line {each.line}: {each.message}" for each in warnings]


def _errors(root: yaml.MappingNode, environment: Mapping[str, str]) -> Iterator[Finding]:
    for name, _ in root.value:
        hint = "" if name.value in SECTIONS else meant(name.value, SECTIONS, NEAR)
        if hint:
            yield Finding(name, f"unknown field {name.value!r}.{hint}")
    yield from secrets(root)
    yield from unset(root, environment, of_models=False)
    models = get(root, "model_list")
    if not items_of(models):
        yield Finding(models or root, "`model_list` must be a list of models, not empty.")
    handlers = [text_of(node) for _, node in scalars(get(root, *HANDLERS))]
    for model in items_of(models):
        target = get(model, "litellm_params", "model")
        if get(model, "model_name") is None or target is None:
            yield Finding(model, "the model requires `model_name` and `litellm_params.model`.")
        elif text_of(target).startswith(PROVIDER) and HANDLER not in handlers:
            yield Finding(
                target,
                "a `toolgate/…` model requires an entry in `litellm_settings.custom_provider_map` "
                f"with `provider: toolgate` and `custom_handler: {HANDLER}`.",
            )
        weight = get(model, "litellm_params", "weight")
        if weight is not None and weight.tag not in NUMBERS:
            yield Finding(weight, "`weight` must be a number.")
    yield from unknown_models(root)
    yield from callbacks(root)
    for strategy in _strategies(root):
        if (text := text_of(strategy)) not in (*STRATEGIES, *HEALTH_UNAWARE, "priority"):
            known = ", ".join(STRATEGIES)
            yield Finding(strategy, f"`routing_strategy` is {text!r}, but must be one of {known}.")
    general = get(root, "general_settings")
    if get(general, "master_key") is None and not environment.get("LITELLM_MASTER_KEY"):
        yield Finding(
            general or root,
            "`general_settings.master_key` is missing. Without a master key the gateway would "
            "accept all requests. Set it to os.environ/TOOLGATE_MASTER_KEY.",
        )
    auth = get(general, "custom_auth")
    for section, name in AUTH_CHECKS if text_of(auth) == AUTH else ():
        if not is_true(get(root, section, name)):
            yield Finding(
                auth,
                f"`custom_auth` requires `{section}.{name}: true`. Without it LiteLLM does not "
                "check the models of virtual keys.",
            )


def _field_errors(
    root: yaml.Node, known: ConfigFields, environment: Mapping[str, str]
) -> Iterator[Finding]:
    """Find misspelt fields, and addresses without a scheme."""
    for section, names in (
        ("general_settings", known.general),
        ("router_settings", known.router),
        ("litellm_settings", known.litellm),
    ):
        yield from _misspelt(section, get(root, section), names)
    for params in params_of(root, toolgate=True):
        yield from _misspelt("litellm_params", params, known.params)
        node = get(params, "api_base")
        address, source = text_of(node), "`api_base`"
        if address.startswith(ENVIRONMENT):
            variable = address.removeprefix(ENVIRONMENT)
            address, source = environment.get(variable, ""), f"`api_base` ({variable})"
            if not address:
                continue  # the default is TOOLGATE_BACKEND_URL
        if node is not None and not address.startswith(SCHEMES):
            yield Finding(
                node,
                f"{source} is {address!r}, which has no scheme. Write http://{address} or "
                "https://….",
            )


def _misspelt(section: str, node: yaml.Node | None, known: Collection[str]) -> Iterator[Finding]:
    for name, _ in members_of(node):
        given = text_of(name)
        hint = "" if given in known else meant(given, known, NEAR)
        if hint:
            yield Finding(name, f"`{section}` has no field {given!r}.{hint}")


def _warnings(root: yaml.Node) -> Iterator[Finding]:
    router, general = get(root, "router_settings"), get(root, "general_settings")
    if not is_true(get(router, "disable_cooldowns")):
        yield Finding(
            router or root,
            "`router_settings.disable_cooldowns` is not true. One 404 response then removes a "
            "deployment for all clients for a while.",
        )
    for strategy in _strategies(root):
        if text_of(strategy) in HEALTH_UNAWARE:
            yield Finding(
                strategy,
                f"`routing_strategy: {text_of(strategy)}` ignores the health of deployments. These "
                f"strategies do not: {', '.join(STRATEGIES)}.",
            )
    if not is_true(get(general, "cancel_on_disconnect")):
        yield Finding(
            general or root,
            "`general_settings.cancel_on_disconnect` is not true. Backends then continue requests "
            "whose clients have disconnected.",
        )


def _without_effect(root: yaml.Node, known: ConfigFields) -> Iterator[Finding]:
    """Find fields that LiteLLM ignores. It reads more fields of `general_settings` than it
    declares, so those are not reported."""
    for section, names in (("router_settings", known.router), ("litellm_settings", known.litellm)):
        for name, _ in members_of(get(root, section)):
            if (given := text_of(name)) not in names:
                message = f"`{section}.{given}` is not known to LiteLLM: it has no effect."
                yield Finding(name, message + meant(given, names, SIMILAR))


def _strategies(root: yaml.Node) -> Iterator[yaml.Node]:
    """Yield the routing strategy of all models, and those of routing groups."""
    router = get(root, "router_settings")
    for holder in (router, *items_of(get(router, "routing_groups"))):
        strategy = get(holder, "routing_strategy")
        if strategy is not None and not text_of(strategy).startswith(ENVIRONMENT):
            yield strategy
