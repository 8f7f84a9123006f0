"""`oneOf` as `anyOf`: the alternatives exclude each other, or are made to by the negations of those
that overlap."""

from __future__ import annotations

from typing import Any

from ..relaxation import Occurrence
from .document import Document
from .emptiness import Node
from .negation import Negation, NotExpressible
from .other_values import any_of, both

MAX_OPTIONS = 40


def rewrite(document: Document, pointer: str, node: Node) -> None:
    options = node.get("oneOf")
    if options is not None and document.emptiness.disjoint(options, document.beside(node, "oneOf")):
        document.replace(node, "oneOf", "anyOf", options)


def split(document: Document, pointer: str, node: Node) -> None:
    """Make alternatives that may overlap exclude each other."""
    options = node.get("oneOf")
    if options is None or len(options) > MAX_OPTIONS:
        return
    beside = document.beside(node, "oneOf")
    made = []
    for at in range(len(options)):
        try:
            made.append(_alone(document, node, beside, options, at))
        except NotExpressible:
            if not document.narrowing:
                return
            made.append(False)
    if document.narrowing and not any(other is not False for other in made):
        return
    alone = [both(*each) for each in zip(options, made, strict=True) if each[1] is not False]
    for option in alone:
        if not any(option is each for each in options):
            document.made(option, Occurrence(f"{pointer}/oneOf", "oneOf"))
    document.replace(node, "oneOf", "anyOf", alone or [False])


def _alone(document: Document, node: Node, beside: Node, options: list[Any], at: int) -> Any:
    """A schema of the values of this option that no other one has."""
    never, option = document.emptiness.never, options[at]
    if never(beside, option):
        return False
    overlapping = [
        each for n, each in enumerate(options) if n != at and not never(beside, option, each)
    ]
    negation = Negation(document)
    try:
        return any_of(negation.of_all(overlapping, beside, option))
    except NotExpressible:
        may_close = document.closing and not document.is_extended(node)
        closed = _closed(document, [beside, option]) if may_close else None
        if closed is None:
            raise
        return both(closed, any_of(negation.of_all(overlapping, beside, option, closed)))


def _closed(document: Document, schemas: list[Any]) -> Node | None:
    """A schema of the objects without undeclared members; None if these schemas say which ones they
    allow, or declare none."""
    nodes, choices = document.emptiness.parts(schemas)
    names = {
        n: True for node in nodes for n, s in node.get("properties", {}).items() if s is not False
    }
    required = {name for node in nodes for name in node.get("required", ())}
    if choices or not names or not required <= names.keys():
        return None
    if any(node.keys() & _ABOUT_MEMBERS for node in nodes):
        return None
    return {"properties": names, "additionalProperties": False}


_ABOUT_MEMBERS = frozenset(
    {"additionalProperties", "patternProperties", "propertyNames", "unevaluatedProperties"}
)
