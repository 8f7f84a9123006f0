"""Faults of LiteLLM's configuration with which LiteLLM starts all the same: guardrails that it left
out, fallbacks to models that do not exist, a response cache, and names that it does not read.

The start is refused if a rule of the operator's would not hold. Otherwise the fault is a warning.
The known names are LiteLLM's own. A name that occurs anywhere in its code is no fault, so that no
setting that has an effect is reported.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
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
from .database import has_database
from .fallback_entries import CONFIGURED
from .router import alias_target, litellm_proxy, rows_of

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


class ConfigurationRefused(Exception):
    """The message names the places and what to do."""


@dataclass(frozen=True)
class Fault:
    steps: tuple[str | int, ...]
    message: str
    refused: bool = False

    def __str__(self) -> str:
        return f"{request_path(self.steps)}: {self.message}"


def check_configuration() -> None:
    """Log the faults of the configuration that LiteLLM has loaded. Raise ConfigurationRefused."""
    found = [*faults(litellm_proxy().proxy_config.get_config_state())]
    for fault in found:
        logger.log(logging.ERROR if fault.refused else logging.WARNING, "%s", fault)
    if refused := [str(fault) for fault in found if fault.refused]:
        raise ConfigurationRefused(f"The configuration is refused: {' '.join(refused)}")


def faults(config: Mapping[str, Any]) -> Iterator[Fault]:
    guardrails = [*_entries(config.get("guardrails"))]
    yield from _guardrails(config, guardrails)
    for section in ("router_settings", "litellm_settings"):
        settings = _mapping(config.get(section))
        for name in ("default_fallbacks", "content_policy_fallbacks", *CONFIGURED):
            yield from _fallbacks(settings.get(name), (section, name))
    for section, name in CACHES:
        if _mapping(config.get(section)).get(name) is True:
            message = "LiteLLM's response cache has no effect on Toolgate models."
            yield Fault((section, name), message)
    yield from _names(config, guardrails)


def _guardrails(
    config: Mapping[str, Any], guardrails: list[tuple[int, Mapping[str, Any]]]
) -> Iterator[Fault]:
    """Yield the guardrails that do not run, and those that models name and that do not exist."""
    running = IN_MEMORY_GUARDRAIL_HANDLER.IN_MEMORY_GUARDRAILS
    known: set[Any] = {each["guardrail_name"] for each in running.values()}
    unchecked = "Requests would not be checked by it."
    hooks = [each.value for each in GuardrailEventHooks]
    for at, entry in guardrails:
        steps, params = ("guardrails", at, PARAMS), _mapping(entry.get(PARAMS))
        kind, modes = params.get("guardrail"), params.get("mode")
        wrong = [
            each for each in (modes if isinstance(modes, list) else [modes]) if each not in hooks
        ]
        if isinstance(kind, str) and "." not in kind and kind not in guardrail_initializer_registry:
            meant = _meant(kind, guardrail_initializer_registry)
            message = f"LiteLLM has no guardrail {kind!r}.{meant} {unchecked}"
            yield Fault((*steps, "guardrail"), message, refused=True)
        elif wrong and isinstance(wrong[0], str):
            message = f"LiteLLM has no mode {wrong[0]!r}.{_meant(wrong[0], hooks)} {unchecked}"
            yield Fault((*steps, "mode"), message, refused=True)
        elif entry.get("guardrail_id", entry.get("guardrail_name")) not in {*running, *known}:
            message = f"LiteLLM could not start the guardrail; its log has the reason. {unchecked}"
            yield Fault(steps[:2], message, refused=True)
    known |= {entry.get("guardrail_name") for _, entry in guardrails}
    for each in _mapping(config.get("litellm_settings")).get("guardrails") or ():
        known |= {*_mapping(each)}  # LiteLLM's older form
    for at, model in _entries(config.get("model_list")):
        for name in _mapping(model.get(PARAMS)).get("guardrails") or ():
            if isinstance(name, str) and name not in known:
                message = f"there is no guardrail {name!r}.{_meant(name, known)} {unchecked}"
                place = ("model_list", at, PARAMS, "guardrails")
                yield Fault(place, message, refused=not has_database())


def _fallbacks(given: Any, steps: tuple[str | int, ...]) -> Iterator[Fault]:
    """Yield the names in an array of fallbacks that no model has."""
    for at, each in enumerate(given if isinstance(given, list) else ()):
        model = each if isinstance(each, str) else _mapping(each).get("model")
        entries = {} if isinstance(model, str) else _mapping(each)
        for name in [model] if isinstance(model, str) else entries:
            if name != "*" and rows_of(name) == [] and alias_target(name) is None:
                yield Fault((*steps, at), f"there is no model {name!r}, so it has no effect.")
        for name, listed in entries.items():
            yield from _fallbacks(listed, (*steps, at, name))


def _names(
    config: Mapping[str, Any], guardrails: list[tuple[int, Mapping[str, Any]]]
) -> Iterator[Fault]:
    """Yield the names that LiteLLM does not read."""
    places: list[tuple[tuple[str | int, ...], Any, Collection[str]]] = [((), config, ROOT)]
    places += [((name,), config.get(name), known) for name, known in SETTINGS.items()]
    for at, model in _entries(config.get("model_list")):
        places.append((("model_list", at, PARAMS), model.get(PARAMS), OF_MODELS))
        places.append((("model_list", at), model, ("model_name", PARAMS, "model_info")))
    for at, entry in guardrails:
        places.append((("guardrails", at, PARAMS), entry.get(PARAMS), LitellmParams.model_fields))
    named = [
        (steps, str(name), known)
        for steps, given, known in places
        for name in _mapping(given)
        if name not in known
    ]
    unread = _unread({name for _, name, _ in named})
    for steps, name, known in named:
        meant = nearest(name, known, SIMILAR)
        # What LiteLLM does not read of `litellm_params` may be a parameter of the provider.
        if name in unread and (meant or PARAMS not in steps):
            message = f"LiteLLM reads no setting of this name.{_meant(name, known)}"
            yield Fault((*steps, name), message, refused=RULE.search(meant) is not None)


def _unread(names: Collection[str]) -> set[str]:
    """Return the names that do not occur in LiteLLM's code."""
    unread = {name for name in names if not name.startswith("x-")}
    code = Path(litellm.__file__).parent
    for path in code.rglob("*.py") if unread else ():
        if path.relative_to(code).parts[0] != PROVIDERS:
            text = path.read_text("utf-8", errors="replace")
            unread -= {name for name in unread if name in text and _has_word(text, name)}
    return unread


def _has_word(text: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None


def _meant(name: str, known: Collection[str]) -> str:
    meant = nearest(name, known, SIMILAR)
    return f" Did you mean {meant!r}?" if meant else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _entries(value: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the objects of an array with their indexes."""
    for at, each in enumerate(value if isinstance(value, list) else ()):
        if isinstance(each, Mapping):
            yield at, each
