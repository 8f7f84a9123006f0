"""`not`, `if` and `dependentSchemas` as alternatives. The canonical form of jsonschema-rs has them
too, but not where references are inside, nor where only the keywords beside them exclude what it
can't negate."""

from __future__ import annotations

from typing import Any

from ..relaxation import Occurrence
from .document import Document
from .emptiness import Node
from .negation import Negation, NotExpressible
from .other_values import both


def rewrite_not(document: Document, pointer: str, node: Node) -> None:
    if "not" not in node or _excludes_texts(node["not"]):
        return
    try:
        ways = Negation(document).of(node["not"], document.beside(node, "not"))
    except NotExpressible:
        return
    _replace(document, pointer, node, "not", ways)


def rewrite_if(document: Document, pointer: str, node: Node) -> None:
    if "if" not in node:
        return
    condition, then = node["if"], node.get("then", True)
    try:
        others = Negation(document).of(condition, document.beside(node, "if", "then", "else"))
    except NotExpressible:
        return
    ways = [both(condition, then), *(both(way, node.get("else", True)) for way in others)]
    for keyword in ("then", "else"):
        node.pop(keyword, None)
    _replace(document, pointer, node, "if", ways)


def rewrite_dependent_schemas(document: Document, pointer: str, node: Node) -> None:
    if "dependentSchemas" not in node:
        return
    beside = document.beside(node, "dependentSchemas")
    cases = []
    for name, schema in node["dependentSchemas"].items():
        if not document.emptiness.never(beside, {"type": "object", "required": [name]}):
            cases.append({"anyOf": [_without(name), schema]})
    _replace(document, pointer, node, "dependentSchemas", [{"allOf": cases}] if cases else [{}])


def _without(name: str) -> Node:
    """Values without a member of this name."""
    return {"properties": {name: False}}


def _replace(document: Document, pointer: str, node: Node, keyword: str, ways: list[Any]) -> None:
    for way in ways:
        if isinstance(way, dict) and way is not node[keyword]:
            document.made(way, Occurrence(f"{pointer}/{keyword}", keyword))
    document.replace(node, keyword, "anyOf", ways or [False])


def _excludes_texts(schema: Any) -> bool:
    """Whether `not` of this schema is a pattern in the engine form."""
    if not isinstance(schema, dict) or not schema.keys() <= {"enum", "const"}:
        return False
    values = schema.get("enum", [schema.get("const")])
    return all(isinstance(value, str) for value in values)
