"""All rewrites of a schema, before its canonical form is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import one_of
from .document import Document
from .emptiness import Node

Rule = Callable[[Document, str, Node], None]
RULES: tuple[Rule, ...] = (one_of.rewrite, one_of.split)


def rewritten(schema: Any) -> Document:
    """A schema that accepts the same values, with fewer keywords that engines do not support."""
    document = Document(schema)
    for pointer, node in document.places():
        for rule in RULES:
            rule(document, pointer, node)
    return document
