"""An upper bound on multiples that have none, whose digits could go on without ever being one."""

from __future__ import annotations

from typing import Any

from ..walk import deep_copy, schema_objects
from .unsupported import EXACT, NUMERIC, is_exact

SMALL = EXACT // 2
"""Largest number of a schema whose multiples get a bound. A larger one, wherever it is, may ask for
multiples beyond the bound."""


def with_bounded_multiples(form: Any, schema: Any) -> Any:
    """The engine form of `schema`, in which multiples end at 2^53."""
    unbounded = any(map(_is_unbounded, schema_objects(form)))
    if not unbounded or not all(map(_is_small, schema_objects(schema))):
        return form
    form = deep_copy(form)
    for node in filter(_is_unbounded, schema_objects(form)):
        node["maximum"] = EXACT
    return form


def _is_unbounded(node: dict[str, Any]) -> bool:
    return "multipleOf" in node and not {"maximum", "exclusiveMaximum"} & node.keys()


def _is_small(node: dict[str, Any]) -> bool:
    return all(is_exact(node[keyword], SMALL) for keyword in NUMERIC & node.keys())
