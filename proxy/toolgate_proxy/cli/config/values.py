"""Values in LiteLLM's configuration file: variables, secrets, names, budgets.

LiteLLM accepts names of models that do not exist. A request that needs the fallback then fails.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from importlib.metadata import requires

import yaml

from ...stack.extras import package_command
from ..doctor.installation import packages_of
from .nodes import (
    ENVIRONMENT,
    Finding,
    get,
    items_of,
    meant,
    members_of,
    params_of,
    scalars,
    text_of,
)

SECRETS = ("api_key", "master_key", "database_url", "password", "redis_password")
MIN_SECRET_LENGTH = 8
"""Characters. Shorter values are placeholders such as `none` or `EMPTY`."""
DEFAULTS = {"api_base": "TOOLGATE_BACKEND_URL", "api_key": "TOOLGATE_BACKEND_KEY"}
"""Fields of a Toolgate model, and the setting whose default they have if the variable of the same
name is not set."""
LIKE_ENVIRONMENT = "os.environ"
MANAGERS = tuple(
    (section, "key_management_system") for section in ("general_settings", "litellm_settings")
)
"""Where a secret manager is configured, which LiteLLM asks for variables first."""
NAMING = ("router_settings", "litellm_settings")
"""Sections that name models of `model_list`."""
FALLBACKS = ("fallbacks", "context_window_fallbacks", "content_policy_fallbacks")
DEFAULT_FALLBACKS = "default_fallbacks"
ALIASES = "model_group_alias"
MODELS_ELSEWHERE = (("include",), ("general_settings", "store_model_in_db"))
"""Fields with which there are models that the file does not have."""
NEAR = 0.6
BUDGETS = (
    "max_budget",
    "max_user_budget",
    "max_end_user_budget",
    "max_internal_user_budget",
    "default_max_internal_user_budget",
    "default_internal_user_params",
    "default_team_params",
    "upperbound_key_generate_params",
    "default_key_generate_params",
)
"""Fields of `litellm_settings` that LiteLLM counts in its database only."""
PACKAGES = {
    **{name: name for name in ("langfuse", "lunary", "mlflow", "supabase", "wandb")},
    **{"sentry": "sentry-sdk", "slack": "slack-bolt", "traceloop": "traceloop-sdk"},
    "azure_storage": "azure-storage-file-datalake",
    **dict.fromkeys(("agentops", "arize", "arize_phoenix", "langfuse_otel"), "opentelemetry-sdk"),
    **dict.fromkeys(("langtrace", "levo", "logfire", "opentelemetry"), "opentelemetry-sdk"),
    **dict.fromkeys(("otel", "signoz", "weave_otel"), "opentelemetry-sdk"),
}
"""By callback: the package that LiteLLM imports for it, and that `litellm[proxy]` does not have."""


def secrets(root: yaml.Node) -> Iterator[Finding]:
    """Find secrets in the file itself, and misspelt references to variables."""
    for name, value in scalars(root):
        text = text_of(value)
        if text.startswith(ENVIRONMENT):
            continue
        if text.startswith(LIKE_ENVIRONMENT):
            yield Finding(
                value,
                f"`{name}` is {text!r}. A reference to an environment variable is written "
                f"{ENVIRONMENT}NAME.",
            )
        elif name in SECRETS and len(text) >= MIN_SECRET_LENGTH:
            yield Finding(
                value,
                f"`{name}` has a secret in clear text. Move it to an environment variable, and set "
                f"`{name}: {ENVIRONMENT}NAME`.",
            )


def unset(root: yaml.Node, environment: Mapping[str, str], *, of_models: bool) -> Iterator[Finding]:
    """Find environment variables that are not set: those that concern one model, without which the
    gateway serves the others, or all others."""
    if any(get(root, *manager) is not None for manager in MANAGERS):
        return  # it may have them
    own = {id(value) for name, value in scalars(root) if name == "api_key"}
    own |= {id(each) for one in params_of(root, toolgate=False) for _, each in scalars(one)}
    defaults = {
        id(node)
        for params in params_of(root, toolgate=True)
        for field, variable in DEFAULTS.items()
        if text_of(node := get(params, field)) == f"{ENVIRONMENT}{variable}"
    }
    set_here = {text_of(name) for name, _ in members_of(get(root, "environment_variables"))}
    consequence = " The model's requests are sent without it." if of_models else ""
    for name, value in scalars(root):
        variable = text_of(value).removeprefix(ENVIRONMENT)
        if variable == text_of(value) or environment.get(variable) or variable in set_here:
            continue
        if (id(value) in own) == of_models and id(value) not in defaults:
            message = f"`{name}` refers to the environment variable {variable}, which is not set."
            yield Finding(value, message + consequence)


def unknown_models(root: yaml.Node) -> Iterator[Finding]:
    """Find fallbacks and aliases that name a model that does not exist."""
    if any(get(root, *names) is not None for names in MODELS_ELSEWHERE):
        return
    models = items_of(get(root, "model_list"))
    known = {text_of(get(model, "model_name")) for model in models}
    known |= {text_of(get(model, "model_info", "id")) for model in models}
    known |= {text_of(n) for each in NAMING for n, _ in members_of(get(root, each, ALIASES))}
    known -= {""}
    for section in NAMING:
        for field in (*FALLBACKS, DEFAULT_FALLBACKS, ALIASES):
            for node in _named(field, get(root, section, field)):
                name = text_of(node)
                if name and not name.startswith(ENVIRONMENT) and not _is_known(name, known):
                    hint = meant(name, known, NEAR) or " Add it, or name one of that list."
                    yield Finding(
                        node,
                        f"`{section}.{field}` names the model {name!r}, which `model_list` does "
                        f"not have.{hint}",
                    )


def _named(field: str, node: yaml.Node | None) -> Iterator[yaml.Node]:
    """Yield the nodes that name a model of `model_list`."""
    for _, target in members_of(node) if field == ALIASES else ():
        yield get(target, "model") or target
    for item in items_of(node):
        if field == DEFAULT_FALLBACKS:
            yield item
        for name, targets in members_of(item):
            yield from (name, *items_of(targets))


def _is_known(name: str, known: Collection[str]) -> bool:
    return name == "*" or name in known or any(fnmatchcase(name, each) for each in known)


def unknown_guardrails(root: yaml.Node) -> Iterator[Finding]:
    """Find guardrails of Toolgate models that are not configured. LiteLLM ignores them."""
    if any(get(root, *names) is not None for names in MODELS_ELSEWHERE):
        return
    known = {text_of(get(each, "guardrail_name")) for each in items_of(get(root, "guardrails"))}
    for params in params_of(root, toolgate=True):
        given = get(params, "guardrails")
        for node in items_of(given) or ([] if given is None else [given]):
            if (name := text_of(node)) and name not in known:
                hint = meant(name, known, NEAR)
                yield Finding(
                    node,
                    f"the guardrail {name!r} is not in the section `guardrails`. Unless a callback "
                    f"has this name, it has no effect.{hint}",
                )


def without_database(root: yaml.Node, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Find budgets that have no effect because LiteLLM has no database."""
    if get(root, "general_settings", "database_url") or environment.get("DATABASE_URL"):
        return
    for name, _ in members_of(get(root, "litellm_settings")):
        if (field := text_of(name)) in BUDGETS:
            yield Finding(
                name,
                f"`litellm_settings.{field}` has no effect without LiteLLM's database. Limit keys "
                "with `toolgate keys create --tokens-per-day …`.",
            )


def callbacks(root: yaml.Node) -> Iterator[Finding]:
    """Find callbacks whose package is missing, or of a version that LiteLLM excludes: it would lose
    their events. Exact versions that LiteLLM declares are those of its image."""
    declared = [each.partition(";")[0].strip() for each in requires("litellm") or ()]
    bounded = {re.split(r"\W*[<>]", each)[0]: each for each in declared if "==" not in each}
    for field, node in scalars(root):
        package = PACKAGES.get(name := text_of(node))
        if package is not None and field.endswith(("callback", "callbacks")):
            wanted = bounded.get(package, package)
            for found in packages_of("", [wanted]):
                if found.level != "ok":
                    message = f"the callback {name!r} needs {wanted}: {found.text}. Run: "
                    yield Finding(node, message + package_command(wanted))
