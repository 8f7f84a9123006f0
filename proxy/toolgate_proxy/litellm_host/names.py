"""Names that differ between LiteLLM's releases."""

from __future__ import annotations

from typing import Any


def either(held: Any, name: str) -> Any:
    """An attribute that was private in older releases: `name`, or `_name`."""
    found = getattr(held, name, None)
    return getattr(held, f"_{name}") if found is None else found
