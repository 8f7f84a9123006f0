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

from . import nodes
from .raw_strings import RawStrings, exactly
from .rules import quoted
from .structured import StructuredGrammar

_NAME = re.compile(r"[^\s<>/\[\]]+")


class _Placement:
    """Places the values of a structure. A definition becomes one for each place that differs."""

    def __init__(self, structure: nodes.Structure, item: str) -> None:
        self._structure = structure
        self._item = item
        self._names: dict[Hashable, str] = {}
        self.scalars: set[str] = set()
        self.texts: set[str] = set()
        """The names of tags whose values are no strings at some place, and may be strings."""
        self.definitions: dict[str, nodes.Node] = {}

    def member(self, name: str, node: nodes.Node, place: Location) -> nodes.Node:
        """Return the value of a tag."""
        (self.texts if "string" in place.types else self.scalars).add(name)
        return self.node(node, place)

    def node(self, node: nodes.Node, place: Location) -> nodes.Node:
        types = place.types
        match node:
            case nodes.Reference(name):
                return self._reference(name, place)
            case nodes.Union(options):
                return nodes.Union(tuple(self.node(each, place) for each in options))
            case nodes.Values(values):
                return self._values(values, place)
            case nodes.Text(schema):
                return nodes.Text(schema, types) if "string" in types else nodes.NOTHING
            case nodes.Number(schema):
                kinds = {"integer"} if schema["type"] == "integer" else {"integer", "number"}
                return nodes.Number(schema, types) if kinds <= types else nodes.NOTHING
            case nodes.Array():
                return self._array(node, place)
            case nodes.Object():
                return self._object(node, place)

    def _reference(self, name: str, place: Location) -> nodes.Node:
        at = (name, place.key)
        if at not in self._names:
            self._names[at] = f"{name} {len(self._names)}"
            placed = self._names[at]
            self.definitions[placed] = nodes.NOTHING  # while the definition is made
            self.definitions[placed] = self.node(self._structure.definitions[name], place)
        return nodes.Reference(self._names[at])

    def _values(self, values: tuple[Any, ...], place: Location) -> nodes.Node:
        kept = [each for each in values if type_of(each) in place.types]
        scalars = tuple(each for each in kept if not isinstance(each, list | dict))
        options: list[nodes.Node] = [nodes.Values(scalars, place.types)] if scalars else []
        options += [
            self.node(_exactly(each), place) for each in kept if isinstance(each, list | dict)
        ]
        return nodes.Union(tuple(options))

    def _array(self, node: nodes.Array, place: Location) -> nodes.Node:
        if "array" not in place.types:
            return nodes.NOTHING
        item = self._item
        first = tuple(
            self.member(item, each, place.member(at)) for at, each in enumerate(node.first)
        )
        further = self.member(item, node.further, place.member(len(first)))
        least = max(node.least, 1) if "string" in place.types else node.least
        return nodes.Array(first, further, least, node.most)

    def _object(self, node: nodes.Object, place: Location) -> nodes.Node:
        if "object" not in place.types:
            return nodes.NOTHING
        beside_array = "array" in place.types
        members = [
            replace(each, value=nodes.NOTHING)
            if beside_array and each.name == self._item
            else replace(each, value=self.member(each.name, each.value, place.member(each.name)))
            for each in node.members
        ]
        never_empty = beside_array or "string" in place.types
        least = max(node.least, int(never_empty))
        return replace(node, members=tuple(members), further=None, least=least)


def _exactly(value: Any) -> nodes.Node:
    """Return the structure of one value."""
    if isinstance(value, list):
        return nodes.Array(tuple(map(_exactly, value)), nodes.NOTHING, len(value), len(value))
    if isinstance(value, dict):
        members = tuple(nodes.Member(name, _exactly(each), True) for name, each in value.items())
        return nodes.Object(members, None, {})
    return nodes.Values((value,))


class NestedGrammar(StructuredGrammar):
    separator = ""
    _codec: NestedTags
    _are_bounds_left = False

    def structure(self, schema: dict[str, Any]) -> nodes.Structure:
        whole = nodes.structure_of(schema)
        placement = _Placement(whole, self._codec.item)
        root = placement.node(whole.root, Location.root(self._typed_by))
        for name in placement.scalars - placement.texts:
            self.rules.tags[name.encode(errors="replace")] = "json"
        return nodes.Structure(root, placement.definitions)

    @cached_property
    def _strings(self) -> RawStrings:
        namespace = self._marks.encode(self._codec.namespace)
        return RawStrings(self.rules, namespace, namespace, self._marks, cdata=False)

    def has_text(self, node: nodes.Node) -> bool:
        match node:
            case nodes.Text() | nodes.Values():
                return self._written(node) is not None
            case _:
                return True

    def can_be_key(self, name: str) -> bool:
        return _NAME.fullmatch(name) is not None

    # A value is written with the namespace of its end tag.

    def value(self, node: nodes.Node) -> str:
        match node:
            case nodes.Text() | nodes.Values():
                written = self._written(node)
                assert written is not None
                return written
            case nodes.Number(schema, types):
                if "string" not in types:
                    return f"{self.json(schema)} {self._strings.end}"
                if not schema.keys().isdisjoint(nodes.BOUNDS):
                    self._leave_bounds()
                kinds = ("integer",) if schema["type"] == "integer" else ("integer", "number")
                return self._strings.scalars([PATTERNS[kind] for kind in kinds])
            case _:
                return super().value(node)

    def _written(self, node: nodes.Text | nodes.Values) -> str | None:
        """Return the rule of strings, or of scalars; None if none of them can be written."""
        forbidden = [PATTERNS[kind] for kind in PATTERNS if kind in node.types]
        if isinstance(node, nodes.Text):
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
            self.rules.leave(self._typed_by, nodes.BOUNDS)

    def container(self, node: nodes.Object | nodes.Array) -> str:
        inner = self.items(node) if isinstance(node, nodes.Array) else self.members(node)
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
