"""Types of tools that the SDKs declare."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints


def tool_types(union: Any) -> set[str]:
    """Values of `type` in the members of a union of TypedDicts."""
    hints = (get_type_hints(tool).get("type") for tool in get_args(union))
    return {value for hint in hints for value in _texts(hint)}


def _texts(hint: Any) -> set[str]:
    if isinstance(hint, str):
        return {hint}
    return {text for each in get_args(hint) for text in _texts(each)}
