"""Names of models in LiteLLM's configuration file, beyond `model_list`: fallbacks and aliases.

LiteLLM accepts any name. A request that needs the fallback then fails.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import chain

import yaml

from .config_nodes import ENVIRONMENT, Finding, get, items_of, line_of, members_of, text_of

SECTIONS = ("router_settings", "litellm_settings")
FALLBACKS = ("fallbacks", "context_window_fallbacks", "content_policy_fallbacks")
DEFAULT_FALLBACKS = "default_fallbacks"
ALIASES = "model_group_alias"
MODELS_ELSEWHERE = ("include", "general_settings.store_model_in_db")
"""Fields with which there are models that the file does not have."""
NEAR = 0.6


def unknown_models(root: yaml.Node | None) -> Iterator[Finding]:
    if any(get(root, *path.split(".")) is not None for path in MODELS_ELSEWHERE):
        return
    known = _known(root)
    for section in SECTIONS:
        for field in (*FALLBACKS, DEFAULT_FALLBACKS, ALIASES):
            for node in _named(field, get(root, section, field)):
                name = text_of(node)
                if name and not name.startswith(ENVIRONMENT) and not _is_known(name, known):
                    yield _finding(f"{section}.{field}", node, known)


def _named(field: str, node: yaml.Node | None) -> Iterator[yaml.Node]:
    """The nodes that name a model of `model_list`."""
    if field == ALIASES:
        for _, target in members_of(node):
            yield get(target, "model") or target
        return
    for item in items_of(node):
        if field == DEFAULT_FALLBACKS:
            yield item
            continue
        for name, targets in members_of(item):
            yield from (name, *items_of(targets))


def _known(root: yaml.Node | None) -> frozenset[str]:
    """The names of models, their ids, and aliases of them."""
    models = items_of(get(root, "model_list"))
    names = [text_of(get(model, "model_name")) for model in models]
    ids = [text_of(get(model, "model_info", "id")) for model in models]
    aliases = chain.from_iterable(members_of(get(root, section, ALIASES)) for section in SECTIONS)
    return frozenset({*names, *ids, *(text_of(name) for name, _ in aliases)} - {""})


def _is_known(name: str, known: Collection[str]) -> bool:
    return name == "*" or name in known or any(fnmatchcase(name, each) for each in known)


def _finding(field: str, node: yaml.Node, known: Collection[str]) -> Finding:
    name = text_of(node)
    near = get_close_matches(name, known, n=1, cutoff=NEAR)
    hint = f"Did you mean {near[0]!r}?" if near else "Add it, or name one of that list."
    return Finding(
        line_of(node),
        f"`{field}` names the model {name!r}, which `model_list` does not have. {hint}",
    )
