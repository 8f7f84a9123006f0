"""Attribute names that differ between LiteLLM releases."""

from __future__ import annotations

from typing import Any


def either(held: Any, name: str) -> Any:
    """The attribute `name`, or `_name` in releases where it was private."""
    found = getattr(held, name, None)
    return getattr(held, f"_{name}") if found is None else found
