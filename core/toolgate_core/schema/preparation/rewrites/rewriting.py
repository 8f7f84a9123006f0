"""All rewrites of a schema, before its canonical form is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..relaxation import UNEVALUATED
from . import conditions, contains, counts, finite_patterns, look_ahead, one_of, unique_items
from .document import Document
from .emptiness import Node

Rule = Callable[[Document, str, Node], None]
PATTERN_RULES: tuple[Rule, ...] = (
    look_ahead.rewrite_pattern,
    look_ahead.rewrite_pattern_properties,
)
RULES: tuple[Rule, ...] = (
    one_of.rewrite,
    one_of.split,
    conditions.rewrite_not,
    conditions.rewrite_if,
    conditions.rewrite_dependent_schemas,
    counts.rewrite_min_properties,
    counts.rewrite_max_properties,
    unique_items.rewrite,
    contains.rewrite,
)


def rewritten(schema: Any, *, closing: bool = False) -> Document:
    """A schema that accepts the same values, with fewer keywords that engines do not support.
    `closing`: it may exclude undeclared members of objects that declare properties."""
    document = Document(schema, closing=closing)
    places = document.places()
    # These count what the alternatives of a schema describe, and a rewrite adds alternatives.
    evaluated = any(node.keys() & UNEVALUATED for _, node in places)
    named = () if evaluated else (finite_patterns.rewrite,)
    for rules in ((*PATTERN_RULES, *named), RULES[:1] if evaluated else RULES):
        for pointer, node in places:
            for rule in rules:
                rule(document, pointer, node)
    return document
