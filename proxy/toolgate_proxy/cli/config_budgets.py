"""Budgets in LiteLLM's configuration file. LiteLLM counts what they limit in its database only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import yaml

from .config_nodes import Finding, get, line_of, members_of, text_of

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
"""Fields of `litellm_settings`."""


def without_database(root: yaml.Node | None, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Budgets that have no effect because LiteLLM has no database."""
    if get(root, "general_settings", "database_url") or environment.get("DATABASE_URL"):
        return
    for name, _ in members_of(get(root, "litellm_settings")):
        if (field := text_of(name)) in BUDGETS:
            yield Finding(
                line_of(name),
                f"`litellm_settings.{field}` has no effect without LiteLLM's database. Limit keys "
                "with `toolgate keys create --tokens-per-day …`.",
            )
