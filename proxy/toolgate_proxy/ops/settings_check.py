"""Errors in the TOOLGATE_ variables."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches

from pydantic import ValidationError

from .. import removed
from ..settings import Settings

PREFIX = "TOOLGATE_"
OTHERS = frozenset({
    "ADAPTER", "CACHE_MB", "DIALECT", "FORCED_DRAFTS", "MAX_GRAMMARS", "MAX_REQUESTS",
    "MEMBER_ORDER", "QUARANTINE_MEMORY_MB",
    "API_KEY", "CONFIG", "MODEL", "PORT", "VERIFY_KEY",
    "CHROMIUM", "HELM", "KEY", "MASK_PATIENCE", "REPOSITORY", "REDIS", "SHARED", "TEST_NIGHTLY",
    "TEST_SAMPLE",
})  # fmt: skip
"""Variables of the backend, of clients, and of tests, without the prefix."""
OF_KUBERNETES = re.compile(r"\w+_SERVICE_(HOST|PORT)(_\w+)?|\w+_PORT(_\d+_(TCP|UDP)(_\w+)?)?")
"""Variables that Kubernetes sets for the services of a release called `toolgate`."""
NEAR = 0.7
"""Similarity from which a setting is suggested."""


MODEL = "Settings"
"""Name of the model of `settings()` in its errors."""


def unknown_settings(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return a warning for each TOOLGATE_ variable that no part of Toolgate reads."""
    known = {name.upper() for name in Settings.model_fields}
    found = []
    for variable in sorted(environment):
        name = variable.removeprefix(PREFIX)
        if name == variable or name in known or name in OTHERS or OF_KUBERNETES.fullmatch(name):
            continue
        near = get_close_matches(name, known, n=1, cutoff=NEAR)
        hint = removed.SETTINGS.get(name) or (
            f"Did you mean {PREFIX}{near[0]}?" if near else "docs/reference/settings.md lists all."
        )
        found.append(f"{variable} is not a setting: it has no effect. {hint}")
    return found


def invalid_settings(error: Exception) -> list[str]:
    """Return a line for each invalid variable, without its value, which may be a secret. Empty if
    the error is not that of `settings()`."""
    if not isinstance(error, ValidationError) or error.title != MODEL:
        return []
    found = []
    for each in error.errors(include_input=False, include_url=False):
        name = f"TOOLGATE_{'_'.join(map(str, each['loc'])).upper()}"
        found.append(f"{name}: {each['msg'].removeprefix('Value error, ')}")
    return found
