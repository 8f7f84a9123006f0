"""Faults of LiteLLM's configuration with which LiteLLM starts all the same: guardrails that it left
out, fallbacks to models that do not exist, a response cache, and names that it does not read.

The start is refused if a rule of the operator's would not hold. Otherwise the fault is a warning.
The known names are LiteLLM's own. A name that occurs anywhere in its code is no fault, so that no
setting that has an effect is reported.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import litellm
from litellm.proxy._types import ConfigGeneralSettings
from litellm.proxy.guardrails.guardrail_registry import (
    IN_MEMORY_GUARDRAIL_HANDLER,
    guardrail_initializer_registry,
)
from litellm.router import Router
from litellm.types.guardrails import GuardrailEventHooks, LitellmParams
from litellm.types.router import LiteLLM_Params
from litellm.types.utils import all_litellm_params

from toolgate_core.pointer import request_path

from ..api.shared.parameter import CHAT_TABLE
from ..request_fields import nearest
from .proxy_server import has_database, litellm_proxy
from .routing.fallback_entries import CONFIGURED
from .routing.router import alias_target, rows_of

logger = logging.getLogger("toolgate")

RULE = re.compile(
    "allowed|block|default_on|disable|enforce|guardrail|limit|max_|mode$|polic|reject|require"
    "|turn_off|upperbound"
)
"""Parts of the names of settings that restrict requests."""
SIMILAR = 0.8
"""Least similarity of a name to the one that was meant."""
PARAMS = "litellm_params"
SETTINGS: Mapping[str, Collection[str]] = {
    "general_settings": ConfigGeneralSettings.model_fields,
    "litellm_settings": litellm.__annotations__,
    "router_settings": signature(Router.__init__).parameters,
}
OF_MODELS = {*LiteLLM_Params.model_fields, *all_litellm_params, *CHAT_TABLE}
ROOT = (*SETTINGS, "model_list", "guardrails", "policies", "policy_attachments", "mcp_servers")
CACHES = (("litellm_settings", "cache"), ("router_settings", "cache_responses"))
PROVIDERS = "llms"
"""Folder of LiteLLM's code that reads no configuration."""
Steps = tuple[str | int, ...]
Fault = tuple[Steps, str, bool]
"""The place, the message, and whether the start is refused."""


class ConfigurationRefused(Exception):
    """The configuration cannot be used. The message names the places and what to do."""


def check_configuration() -> None:
    """Log the faults of the configuration that LiteLLM has loaded. Raise ConfigurationRefused."""
    refusals = []
    for steps, message, refused in faults(litellm_proxy().proxy_config.get_config_state()):
        line = f"{request_path(steps)}: {message}"
        logger.log(logging.ERROR if refused else logging.WARNING, "%s", line)
        refusals += [line] * refused
    if refusals:
        raise ConfigurationRefused(f"The configuration is refused: {' '.join(refusals)}")


def faults(config: Mapping[str, Any]) -> Iterator[Fault]:
    guardrails = [*_entries(config, "guardrails")]
    yield from _guardrails(config, guardrails)
    for section in ("router_settings", "litellm_settings"):
        for name in ("default_fallbacks", "content_policy_fallbacks", *CONFIGURED):
            yield from _fallbacks(_mapping(config.get(section)).get(name), (section, name))
    for section, name in CACHES:
        if _mapping(config.get(section)).get(name) is True:
            message = "LiteLLM's response cache has no effect on Toolgate models."
            yield (section, name), message, False
    yield from _names(config, guardrails)


def _guardrails(
    config: Mapping[str, Any], guardrails: Sequence[tuple[Steps, Mapping[str, Any]]]
) -> Iterator[Fault]:
    """Yield the guardrails that do not run, and those that models name and that do not exist."""
    running = IN_MEMORY_GUARDRAIL_HANDLER.IN_MEMORY_GUARDRAILS
    started = {*running, *(each["guardrail_name"] for each in running.values())}
    kinds, hooks = guardrail_initializer_registry, [each.value for each in GuardrailEventHooks]
    unchecked = "Requests would not be checked by it."
    for steps, entry in guardrails:
        params = _mapping(entry.get(PARAMS))
        kind, modes = params.get("guardrail"), params.get("mode")
        wrong = [
            each for each in (modes if isinstance(modes, list) else [modes]) if each not in hooks
        ]
        if isinstance(kind, str) and "." not in kind and kind not in kinds:
            message = f"LiteLLM has no guardrail {kind!r}.{_meant(kind, kinds)} {unchecked}"
            yield (*steps, PARAMS, "guardrail"), message, True
        elif wrong and isinstance(wrong[0], str):
            message = f"LiteLLM has no mode {wrong[0]!r}.{_meant(wrong[0], hooks)} {unchecked}"
            yield (*steps, PARAMS, "mode"), message, True
        elif entry.get("guardrail_id", entry.get("guardrail_name")) not in started:
            message = f"LiteLLM could not start the guardrail; its log has the reason. {unchecked}"
            yield steps, message, True
    older = (entry for _, entry in _entries(_mapping(config.get("litellm_settings")), "guardrails"))
    known = started.union(*older, (str(each.get("guardrail_name")) for _, each in guardrails))
    for steps, model in _entries(config, "model_list"):
        names = _mapping(model.get(PARAMS)).get("guardrails")
        for name in names if isinstance(names, list) else [names]:
            if isinstance(name, str) and name not in known:
                message = f"there is no guardrail {name!r}.{_meant(name, known)} {unchecked}"
                yield (*steps, PARAMS, "guardrails"), message, not has_database()


def _fallbacks(rules: Any, steps: Steps) -> Iterator[Fault]:
    """Yield the names in an array of fallbacks that no model has."""
    for at, rule in enumerate(rules if isinstance(rules, list) else ()):
        model = rule if isinstance(rule, str) else _mapping(rule).get("model")
        entries = {} if isinstance(model, str) else _mapping(rule)
        for name in [model] if isinstance(model, str) else map(str, entries):
            if name != "*" and not rows_of(name) and alias_target(name) is None:
                yield (*steps, at), f"there is no model {name!r}, so it has no effect.", False
        for name, listed in entries.items():
            yield from _fallbacks(listed, (*steps, at, name))


def _names(
    config: Mapping[str, Any], guardrails: Sequence[tuple[Steps, Mapping[str, Any]]]
) -> Iterator[Fault]:
    """Yield the names that LiteLLM does not read."""
    places: list[tuple[Steps, Any, Collection[str]]] = [((), config, ROOT)]
    places += [((name,), config.get(name), known) for name, known in SETTINGS.items()]
    for steps, model in _entries(config, "model_list"):
        places.append((steps, model, ("model_name", PARAMS, "model_info")))
        places.append(((*steps, PARAMS), model.get(PARAMS), OF_MODELS))
    for steps, entry in guardrails:
        places.append(((*steps, PARAMS), entry.get(PARAMS), LitellmParams.model_fields))
    named = [
        (steps, str(name), known)
        for steps, section, known in places
        for name in _mapping(section)
        if name not in known
    ]
    unread = _unread({name for _, name, _ in named if not name.startswith("x-")})
    for steps, name, known in named:
        meant = nearest(name, known, SIMILAR)
        # What LiteLLM does not read of `litellm_params` may be a parameter of the provider.
        if name in unread and (meant or PARAMS not in steps):
            message = f"LiteLLM reads no setting of this name.{_meant(name, known)}"
            yield (*steps, name), message, RULE.search(meant) is not None


def _unread(names: set[str]) -> set[str]:
    """Return the names that do not occur in LiteLLM's code."""
    code = Path(litellm.__file__).parent
    for path in code.rglob("*.py") if names else ():
        if path.relative_to(code).parts[0] != PROVIDERS:
            text = path.read_text("utf-8", errors="replace")
            mentioned = {each for each in names if each in text}  # which is fast
            names -= {each for each in mentioned if re.search(rf"\b{re.escape(each)}\b", text)}
    return names


def _meant(name: str, known: Iterable[str]) -> str:
    meant = nearest(name, known, SIMILAR)
    return f" Did you mean {meant!r}?" if meant else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _entries(config: Mapping[str, Any], name: str) -> Iterator[tuple[Steps, Mapping[str, Any]]]:
    """Yield the objects of an array with their places."""
    entries = config.get(name)
    for at, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, Mapping):
            yield (name, at), entry
