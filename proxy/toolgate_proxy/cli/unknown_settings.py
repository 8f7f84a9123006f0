"""TOOLGATE_ variables that have no effect, because no part of Toolgate reads them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches

from ..settings import Settings

PREFIX = "TOOLGATE_"
OTHERS = frozenset({
    "ADAPTER", "BLOB_CACHE_MB", "DIALECT", "FORCED_DRAFTS", "GRAPH_MB", "MASK_BUDGET_MS",
    "MAX_GRAMMARS", "MAX_REQUESTS", "MAX_SLOW_MASKS", "MEMBER_ORDER", "QUARANTINE_CPU_SECONDS",
    "QUARANTINE_MEMORY_MB", "QUARANTINE_WALL_SECONDS", "QUARANTINE_WORKERS", "REPETITION_TOKENS",
    "RULES_CACHE_MB", "API_KEY", "MODEL", "PORT", "VERIFY_KEY",
    "CHROMIUM", "HELM", "KEY", "MASK_PATIENCE", "REPOSITORY", "REDIS", "SHARED", "TEST_NIGHTLY",
})  # fmt: skip
"""Variables of the backend, of clients, and of tests, without the prefix."""
OF_KUBERNETES = re.compile(r"\w+_SERVICE_(HOST|PORT)(_\w+)?|\w+_PORT(_\d+_(TCP|UDP)(_\w+)?)?")
"""Variables that Kubernetes sets for the services of a release called `toolgate`."""
PAGE = "docs/reference/settings.md"
NEAR = 0.7
"""Similarity from which a setting is suggested."""


def unknown_settings(environment: Mapping[str, str] = os.environ) -> list[str]:
    """One warning for each variable."""
    known = {name.upper() for name in Settings.model_fields}
    found = []
    for variable in sorted(environment):
        name = variable.removeprefix(PREFIX)
        if name == variable or name in known or name in OTHERS or OF_KUBERNETES.fullmatch(name):
            continue
        near = get_close_matches(name, known, n=1, cutoff=NEAR)
        hint = f"Did you mean {PREFIX}{near[0]}?" if near else f"{PAGE} lists all."
        found.append(f"{variable} is not a setting: it has no effect. {hint}")
    return found
