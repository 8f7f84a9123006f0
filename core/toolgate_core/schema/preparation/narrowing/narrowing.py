"""A schema of some of the values of another one, in keywords that masks enforce.

Calls of the schema itself are sampled first. This is for the case that none of them satisfies the
keywords that masks can't enforce: a list without duplicates gets one item, a condition is met, an
object has its declared members only. Most narrowed schemas have valid values only. No proof of that
is needed, because their calls are validated like all others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ..prepare import prepare
from ..relaxation import Occurrence
from ..rewrites import conditions, one_of
from ..rewrites.document import Document
from ..rewrites.emptiness import Node
from . import arrays, objects, scalars

ROUNDS = 4
"""Maximum number of times that a schema is narrowed where its masks are still incomplete."""

Rule = Callable[[Document, str, Node], None]


def narrowed(schema: Any) -> Any:
    """Raises SchemaNotEnforceable if the schema is not valid, or if no value satisfies it."""
    for _ in range(ROUNDS):
        residual = prepare(schema).residual
        if not residual:
            break
        schema = narrow_at(schema, residual)
    return schema


def narrow_at(schema: Any, occurrences: Collection[Occurrence]) -> Any:
    """Narrow a schema at these occurrences of keywords only."""
    document = Document(schema, closing=True, narrowing=True)
    outer = dict.fromkeys(_outermost(document, each) for each in occurrences)
    for pointer, node in document.places():
        for occurrence in outer:
            keyword = occurrence.keyword
            if occurrence.owner == pointer and keyword in node and keyword in RULES:
                RULES[keyword](document, pointer, node)
    return document.finish()


def _outermost(document: Document, occurrence: Occurrence) -> Occurrence:
    """The keyword to narrow. A narrower schema inside `not`, `if` or `oneOf` would mean more values
    outside."""
    pointer = ""
    for keyword in occurrence.pointer.split("/")[1:]:
        if keyword in ("if", "not", "oneOf") and document.node_at(pointer) is not None:
            return Occurrence(f"{pointer}/{keyword}", keyword)
        pointer = f"{pointer}/{keyword}"
    return occurrence


def _one_of(document: Document, pointer: str, node: Node) -> None:
    one_of.rewrite(document, pointer, node)
    one_of.split(document, pointer, node)
    if "oneOf" in node and objects.close(document, pointer, node):
        one_of.split(document, pointer, node)
    if "oneOf" in node:
        scalars.narrow_numbers(document, pointer, node)
    if "oneOf" in node:
        document.replace(node, "oneOf", "anyOf", node["oneOf"][:1])


def _not(document: Document, pointer: str, node: Node) -> None:
    conditions.rewrite_not(document, pointer, node)
    if "not" in node and objects.close(document, pointer, node):
        conditions.rewrite_not(document, pointer, node)
    if "not" in node:
        scalars.narrow_values(document, pointer, node)


def _if(document: Document, pointer: str, node: Node) -> None:
    """Meet the condition, if it can't be negated."""
    conditions.rewrite_if(document, pointer, node)
    if "if" in node:
        both = [node["if"], node.pop("then", True)]
        node.pop("else", None)
        document.replace(node, "if", "anyOf", [{"allOf": both}])


def _dependent_schemas(document: Document, pointer: str, node: Node) -> None:
    """Leave out the members on which others depend."""
    named = node.pop("dependentSchemas")
    required = node.get("required", ())
    node["properties"] = node.get("properties", {}) | {
        name: False for name in named if name not in required
    }
    node["allOf"] = [*node.get("allOf", ()), *(s for n, s in named.items() if n in required)]


RULES: dict[str, Rule] = {
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
    "dependentSchemas": _dependent_schemas,
    "contains": arrays.narrow_contains,
    "uniqueItems": arrays.narrow_unique_items,
    "minProperties": objects.narrow_counts,
    "maxProperties": objects.narrow_counts,
    "propertyNames": objects.narrow_names,
    "patternProperties": objects.narrow_names,
    "pattern": scalars.narrow_values,
    "format": scalars.narrow_values,
    "multipleOf": scalars.narrow_multiples,
    "minimum": scalars.narrow_bounds,
    "maximum": scalars.narrow_bounds,
    "exclusiveMinimum": scalars.narrow_bounds,
    "exclusiveMaximum": scalars.narrow_bounds,
}
