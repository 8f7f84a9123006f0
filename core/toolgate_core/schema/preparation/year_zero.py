"""Removal of dates in the year 0000 that a schema lists.

Validation refuses them (formats.py). The grammar engines accept every listed value, whatever its
format, so masks would allow them.
"""

from __future__ import annotations

from typing import Any

from ..formats import WITH_YEAR, YEAR_ZERO
from ..walk import deep_copy, reachable


def without_year_zero(schema: Any) -> Any:
    """The schema without values in the year 0000 where an `enum` or `const` is beside the format.
    Returns the same object if there are none."""
    if not any(map(_has_year_zero, _nodes(schema))):
        return schema
    copy = deep_copy(schema)
    for node in filter(_has_year_zero, _nodes(copy)):
        node["enum"] = [value for value in _listed(node) if not _is_in_year_zero(value)]
    return copy


def _nodes(schema: Any) -> list[dict[str, Any]]:
    return [node for _, node in reachable(schema)]


def _has_year_zero(node: dict[str, Any]) -> bool:
    return node.get("format") in WITH_YEAR and any(map(_is_in_year_zero, _listed(node)))


def _listed(node: dict[str, Any]) -> list[Any]:
    listed = node.get("enum", [node["const"]] if "const" in node else [])
    return listed if isinstance(listed, list) else []


def _is_in_year_zero(value: object) -> bool:
    return isinstance(value, str) and value.startswith(YEAR_ZERO)
