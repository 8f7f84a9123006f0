"""Invalid TOOLGATE_ variables as lines of text, without their values: some are secrets."""

from __future__ import annotations

from pydantic import ValidationError

SETTINGS = "Settings"
"""Name of the model in its errors."""


def invalid_settings(error: Exception) -> list[str]:
    """Empty if the error is not that of `settings()`."""
    if not isinstance(error, ValidationError) or error.title != SETTINGS:
        return []
    found = []
    for each in error.errors(include_input=False, include_url=False):
        name = f"TOOLGATE_{'_'.join(map(str, each['loc'])).upper()}"
        found.append(f"{name}: {each['msg'].removeprefix('Value error, ')}")
    return found
