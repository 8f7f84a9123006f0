"""The grammar of arguments in nested tags.

What the text of a value means depends on the types that the schema allows at its place, so each
value of the structure is placed first. Members that a schema does not declare cannot be written: a
grammar cannot repeat a name in the end tag.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from dataclasses import replace
from functools import cached_property
from typing import Any

from toolgate_core.dialects.arguments.nested import Location
from toolgate_core.dialects.arguments.parser import PATTERNS
from toolgate_core.dialects.dialect import NestedTags
from toolgate_core.schema.types import type_of

from .nodes import (
    BOUNDS,
    NOTHING,
    Array,
    Member,
    Node,
    Number,
    Object,
    Reference,
    Structure,
    Text,
    Union,
    Values,
    structure_of,
)
from .raw_strings import RawStrings, exactly
from .rules import quoted
from .structured import StructuredGrammar

_NAME = re.compile(r"[^\s<>/\[\]]+")


class _Placement:
    """Places the values of a structure. A definition becomes one for each place that differs."""

    def __init__(self, structure: Structure, item: str) -> None:
        self._structure = structure
        self._item = item
        self._names: dict[Hashable, str] = {}
        self.scalars: set[str] = set()
        self.texts: set[str] = set()
        """The names of tags whose values are no strings at some place, and may be strings."""
        self.definitions: dict[str, Node] = {}

    def member(self, name: str, node: Node, place: Location) -> Node:
        """Return the value of a tag."""
        (self.texts if "string" in place.types else self.scalars).add(name)
        return self.node(node, place)

    def node(self, node: Node, place: Location) -> Node:
        types = place.types
        match node:
            case Reference(name):
                return self._reference(name, place)
            case Union(options):
                return Union(tuple(self.node(each, place) for each in options))
            case Values(values):
                return self._values(values, place)
            case Text(schema):
                return Text(schema, types) if "string" in types else NOTHING
            case Number(schema):
                kinds = {"integer"} if schema["type"] == "integer" else {"integer", "number"}
                return Number(schema, types) if kinds <= types else NOTHING
            case Array():
                return self._array(node, place)
            case Object():
                return self._object(node, place)

    def _reference(self, name: str, place: Location) -> Node:
        at = (name, place.key)
        if at not in self._names:
            self._names[at] = f"{name} {len(self._names)}"
            placed = self._names[at]
            self.definitions[placed] = NOTHING  # while the definition is made
            self.definitions[placed] = self.node(self._structure.definitions[name], place)
        return Reference(self._names[at])

    def _values(self, values: tuple[Any, ...], place: Location) -> Node:
        kept = [each for each in values if type_of(each) in place.types]
        scalars = tuple(each for each in kept if not isinstance(each, list | dict))
        options: list[Node] = [Values(scalars, place.types)] if scalars else []
        options += [
            self.node(_exactly(each), place) for each in kept if isinstance(each, list | dict)
        ]
        return Union(tuple(options))

    def _array(self, node: Array, place: Location) -> Node:
        if "array" not in place.types:
            return NOTHING
        item = self._item
        first = tuple(
            self.member(item, each, place.member(at)) for at, each in enumerate(node.first)
        )
        further = self.member(item, node.further, place.member(len(first)))
        least = max(node.least, 1) if "string" in place.types else node.least
        return Array(first, further, least, node.most)

    def _object(self, node: Object, place: Location) -> Node:
        if "object" not in place.types:
            return NOTHING
        beside_array = "array" in place.types
        members = [
            replace(each, value=NOTHING)
            if beside_array and each.name == self._item
            else replace(each, value=self.member(each.name, each.value, place.member(each.name)))
            for each in node.members
        ]
        never_empty = beside_array or "string" in place.types
        least = max(node.least, int(never_empty))
        return replace(node, members=tuple(members), further=None, least=least)


def _exactly(value: Any) -> Node:
    """Return the structure of one value."""
    if isinstance(value, list):
        return Array(tuple(map(_exactly, value)), NOTHING, len(value), len(value))
    if isinstance(value, dict):
        members = tuple(Member(name, _exactly(each), True) for name, each in value.items())
        return Object(members, None, {})
    return Values((value,))


class NestedGrammar(StructuredGrammar):
    separator = ""
    _codec: NestedTags
    _are_bounds_left = False

    def structure(self, schema: dict[str, Any]) -> Structure:
        whole = structure_of(schema)
        placement = _Placement(whole, self._codec.item)
        root = placement.node(whole.root, Location.root(self._typed_by))
        for name in placement.scalars - placement.texts:
            self.rules.tags[name.encode(errors="replace")] = "json"
        return Structure(root, placement.definitions)

    @cached_property
    def _strings(self) -> RawStrings:
        namespace = self._marks.encode(self._codec.namespace)
        return RawStrings(self.rules, namespace, namespace, self._marks, cdata=False)

    def has_text(self, node: Node) -> bool:
        match node:
            case Text() | Values():
                return self._written(node) is not None
            case _:
                return True

    def can_be_key(self, name: str) -> bool:
        return _NAME.fullmatch(name) is not None

    # A value is written with the namespace of its end tag.

    def value(self, node: Node) -> str:
        match node:
            case Text() | Values():
                written = self._written(node)
                assert written is not None
                return written
            case Number(schema, types):
                if "string" not in types:
                    return f"{self.json(schema)} {self._strings.end}"
                if not schema.keys().isdisjoint(BOUNDS):
                    self._leave_bounds()
                kinds = ("integer",) if schema["type"] == "integer" else ("integer", "number")
                return self._strings.scalars([PATTERNS[kind] for kind in kinds])
            case _:
                return super().value(node)

    def _written(self, node: Text | Values) -> str | None:
        """Return the rule of strings, or of scalars; None if none of them can be written."""
        forbidden = [PATTERNS[kind] for kind in PATTERNS if kind in node.types]
        if isinstance(node, Text):
            return self._strings.value({"type": "string", **node.schema}, forbidden)
        texts = [each for each in node.values if isinstance(each, str)]
        others = [each for each in node.values if each is not None and not isinstance(each, str)]
        ways = []
        if texts and (written := self._strings.value({"enum": texts}, forbidden)):
            ways.append(written)
        if others:
            ways.append(self._strings.scalars([exactly(json.dumps(each)) for each in others]))
        return self.one_of(ways) if ways else None

    def _leave_bounds(self) -> None:
        """Leave the bounds of numbers to validation."""
        if not self._are_bounds_left:
            self._are_bounds_left = True
            self.rules.leave(self._typed_by, BOUNDS)

    def container(self, node: Object | Array) -> str:
        inner = self.items(node) if isinstance(node, Array) else self.members(node)
        return self.rules.add("container", f"{inner} {self._strings.end}")

    def argument(self, name: str, value: str) -> str:
        begin = self.literal_text(f"{self._codec.namespace}<{name}>")
        return self._element(begin, name, value)

    # Inside a container, the namespace of the next begin tag or of the container's end tag is a
    # terminal of its own: llguidance's lexer could not go back to it from a longer one.

    def member(self, name: str, value: str) -> str:
        begin = f"{self._strings.end} {quoted(f'<{name}>')}"
        return self._element(begin, name, value)

    def item(self, value: str) -> str:
        return self.member(self._codec.item, value)

    def _element(self, begin: str, name: str, value: str) -> str:
        return self.rules.add("element", f"{begin} ({value}) {quoted(f'</{name}>')}")
