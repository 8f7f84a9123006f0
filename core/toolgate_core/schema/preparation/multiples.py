"""An upper bound on multiples that have none, whose digits could go on without ever being one."""

from __future__ import annotations

from typing import Any

from ..walk import deep_copy, subschemas
from .unsupported import EXACT, NUMERIC, is_exact

SMALL = EXACT // 2
"""Largest number of a schema whose multiples get a bound. A larger one, wherever it is, may ask for
multiples beyond the bound."""


def with_bounded_multiples(form: Any, schema: Any) -> Any:
    """The engine form of `schema`, in which multiples end at 2^53."""
    if not any(map(_is_unbounded, _nodes(form))) or not all(map(_is_small, _nodes(schema))):
        return form
    form = deep_copy(form)
    for node in filter(_is_unbounded, _nodes(form)):
        node["maximum"] = EXACT
    return form


def _nodes(schema: Any) -> list[dict[str, Any]]:
    return [node for _, node in subschemas(schema) if isinstance(node, dict)]


def _is_unbounded(node: dict[str, Any]) -> bool:
    return "multipleOf" in node and not {"maximum", "exclusiveMaximum"} & node.keys()


def _is_small(node: dict[str, Any]) -> bool:
    return all(is_exact(node[keyword], SMALL) for keyword in NUMERIC & node.keys())
