"""The structure of the values of a prepared schema, from which codecs make their grammars, and the
alternatives of one, without references and `anyOf`.

In a prepared schema, which is in engine form (toolgate_core.schema.preparation), `$ref` and `anyOf`
stand alone, and `allOf` has patterns only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs

from toolgate_core.pointer import escape
from toolgate_core.schema.types import ALL, own_types, type_of, types_of
from toolgate_core.schema.walk import at_pointer, deep_copy, pointer_of_ref, ref_to, subschemas

from ...errors import GrammarRefused

MAX_ALTERNATIVES = 256
_WHOLE = "whole"


def without_root_references(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with references to itself replaced by references to a definition, so that
    parts of it can be used beside its definitions."""
    if not any(
        isinstance(node, dict) and node.get("$ref") == "#" for _, node in subschemas(schema)
    ):
        return schema
    copied: dict[str, Any] = deep_copy(schema)
    for _, node in [*subschemas(copied)]:
        if isinstance(node, dict) and node.get("$ref") == "#":
            node["$ref"] = ref_to(f"/$defs/{_WHOLE}")
    definitions = copied.pop("$defs", {})
    return {**copied, "$defs": {**definitions, _WHOLE: deep_copy(copied)}}


def alternatives(schema: Any, document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the alternatives of `schema`. References lead into `document`. Raise GrammarRefused if
    there are more than `MAX_ALTERNATIVES`."""
    ways = []
    for way in _flatten(schema, document, ()):
        ways.append(way)
        if len(ways) > MAX_ALTERNATIVES:
            raise GrammarRefused(f"more than {MAX_ALTERNATIVES} alternatives", "")
    return ways


def _flatten(
    schema: Any, document: dict[str, Any], path: tuple[int, ...]
) -> Iterator[dict[str, Any]]:
    if schema is True:
        schema = {}
    if not isinstance(schema, dict) or id(schema) in path:
        return
    path = (*path, id(schema))
    pointer = pointer_of_ref(schema.get("$ref"))
    if pointer is not None:
        yield from _flatten(at_pointer(document, pointer), document, path)
    elif "anyOf" in schema:
        for option in schema["anyOf"]:
            yield from _flatten(option, document, path)
    else:
        yield schema


def types(schema: dict[str, Any]) -> frozenset[str]:
    """Return the types of an alternative; `number` includes `integer`."""
    values = listed(schema)
    return own_types(schema) if values is None else types_of(values)


def listed(schema: dict[str, Any]) -> list[Any] | None:
    """Return the values of an `enum` or `const` that satisfy the other keywords; None without
    these."""
    if "const" in schema:
        values = [schema["const"]]
    elif "enum" in schema:
        values = schema["enum"]
    else:
        return None
    rest = {keyword: value for keyword, value in schema.items() if keyword not in ("enum", "const")}
    return [value for value in values if _satisfies(value, rest)]


def restricted(schema: dict[str, Any], kinds: frozenset[str]) -> dict[str, Any] | None:
    """Return the alternative for values of these types; None if there are none."""
    values = listed(schema)
    if values is not None:
        kept = [value for value in values if type_of(value) in kinds]
        return {"enum": kept} if kept else None
    common = types(schema) & kinds
    if not common:
        return None
    if "number" in common:
        common -= {"integer"}
    return {**schema, "type": sorted(common)}


def _satisfies(value: Any, schema: dict[str, Any]) -> bool:
    return bool(jsonschema_rs.is_valid(schema, value, validate_formats=True))


@dataclass(frozen=True)
class FurtherMembers:
    """Members that an object does not declare."""

    schema: Any
    """Schema of their values."""
    declared: frozenset[str] = frozenset()
    """The names that they cannot have."""
    pattern: str | None = None
    """A pattern of the names that they have; None if they have all others."""


def declared_members(node: dict[str, Any]) -> dict[str, Any]:
    """Return the schemas of declared members, and of those that are only required, by name."""
    properties, rest = node.get("properties", {}), node.get("additionalProperties", True)
    required = {name: rest for name in node.get("required", ()) if name not in properties}
    return {**properties, **required}


def further_members(node: dict[str, Any]) -> FurtherMembers | None:
    """Return the members that an object does not declare; None if it has no others."""
    rest, pattern = node.get("additionalProperties", True), None
    if node.get("patternProperties"):
        [(pattern, rest)] = node["patternProperties"].items()
    declared = frozenset(declared_members(node))
    return None if rest is False else FurtherMembers(rest, declared, pattern)


def member_counts(node: dict[str, Any]) -> tuple[int, int | None]:
    """Return the least and the greatest number of members."""
    most = node.get("maxProperties")
    return int(node.get("minProperties", 0)), None if most is None else int(most)


_ANYTHING = "*"
OF_TEXT = ("minLength", "maxLength", "pattern", "format", "allOf")
BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
"""The keywords of numbers."""
MEMBER_COUNTS = ("minProperties", "maxProperties")
OF_OBJECTS = (
    *("properties", "required", "additionalProperties", "patternProperties"),
    *MEMBER_COUNTS,
)
OF_ARRAYS = ("items", "prefixItems", "minItems", "maxItems")
_KEYWORDS = frozenset({"type", "$defs", *OF_TEXT, *BOUNDS, *OF_OBJECTS, *OF_ARRAYS})


@dataclass(frozen=True)
class Text:
    """Any string that satisfies `schema`."""

    schema: dict[str, Any]
    types: frozenset[str] = ALL
    """The types that are allowed in its place, if these decide how a text is read."""


@dataclass(frozen=True)
class Number:
    """Any number that satisfies `schema`."""

    schema: dict[str, Any]
    types: frozenset[str] = ALL
    """As those of a text."""


@dataclass(frozen=True)
class Values:
    """One of these JSON values."""

    values: tuple[Any, ...]
    types: frozenset[str] = ALL
    """As those of a text."""


@dataclass(frozen=True)
class Member:
    name: str
    value: Node
    required: bool


@dataclass(frozen=True)
class Further:
    """Members that are not declared."""

    value: Node
    names: FurtherMembers


@dataclass(frozen=True)
class Object:
    members: tuple[Member, ...]
    further: Further | None
    schema: dict[str, Any]
    least: int = 0
    most: int | None = None


@dataclass(frozen=True)
class Array:
    first: tuple[Node, ...]
    """The values of the first items."""
    further: Node
    """The value of each item after these."""
    least: int
    most: int | None


@dataclass(frozen=True)
class Union:
    """A value of one of these. `Union(())` has no value."""

    options: tuple[Node, ...]


@dataclass(frozen=True)
class Reference:
    """A value of a definition of the structure."""

    name: str


Node = Text | Number | Values | Object | Array | Union | Reference
NOTHING = Union(())


@dataclass
class Structure:
    root: Node
    definitions: dict[str, Node] = field(default_factory=dict)

    def options(self, node: Node, seen: frozenset[str] = frozenset()) -> list[Node]:
        """Return the alternatives of `node`, without unions and references."""
        if isinstance(node, Union):
            return [each for option in node.options for each in self.options(option, seen)]
        if isinstance(node, Reference):
            if node.name in seen:
                return []
            return self.options(self.definitions[node.name], seen | {node.name})
        return [node]


def structure_of(schema: Any) -> Structure:
    """Raise GrammarRefused for a keyword that has no place in a structure."""
    builder = _Builder(schema)
    return Structure(builder.node(schema, ""), builder.definitions)


class _Builder:
    def __init__(self, document: Any) -> None:
        self._document = document
        self.definitions: dict[str, Node] = {}
        self._nodes: dict[int, Node] = {}
        """By identity of the schema: required names can have that of all further members."""

    def node(self, schema: Any, pointer: str) -> Node:
        if id(schema) not in self._nodes:
            self._nodes[id(schema)] = self._node(schema, pointer)
        return self._nodes[id(schema)]

    def _node(self, schema: Any, pointer: str) -> Node:
        if schema is False:
            return NOTHING
        if schema is True or not schema.keys() - {"$defs"}:
            return self._anything()
        if "$ref" in schema:
            return self._reference(schema, pointer)
        if "anyOf" in schema:
            options = (
                self.node(each, f"{pointer}/anyOf/{at}") for at, each in enumerate(schema["anyOf"])
            )
            return Union(tuple(options))
        values = listed(schema)
        if values is not None:
            return Values(tuple(values))
        beyond = sorted(schema.keys() - _KEYWORDS)
        if any(each.keys() - {"pattern"} for each in schema.get("allOf", ())):
            beyond.append("allOf")
        if beyond:
            reason = f"{beyond[0]!r} has no grammar in the model's form of arguments"
            raise GrammarRefused(reason, f"{pointer}/{escape(beyond[0])}")
        return _union([self._of_type(kind, schema, pointer) for kind in sorted(types(schema))])

    def _anything(self) -> Node:
        if _ANYTHING not in self.definitions:
            itself = Reference(_ANYTHING)
            self.definitions[_ANYTHING] = Union(
                (
                    Text({}),
                    Number({"type": "number"}),
                    Values((None, True, False)),
                    Object((), Further(itself, FurtherMembers(True)), {"type": "object"}),
                    Array((), itself, 0, None),
                )
            )
        return Reference(_ANYTHING)

    def _reference(self, schema: dict[str, Any], pointer: str) -> Node:
        target = pointer_of_ref(schema["$ref"])
        if target is None:
            raise GrammarRefused("the reference is not local", f"{pointer}/$ref")
        if target not in self.definitions:
            self.definitions[target] = NOTHING  # while the definition is made
            self.definitions[target] = self.node(at_pointer(self._document, target), target)
        return Reference(target)

    def _of_type(self, kind: str, schema: dict[str, Any], pointer: str) -> Node:
        match kind:
            case "string":
                return Text(_kept(schema, OF_TEXT))
            case "number":
                return Number({"type": "number", **_kept(schema, BOUNDS)})
            case "integer":
                return Number({"type": "integer", **_kept(schema, BOUNDS)})
            case "boolean":
                return Values((True, False))
            case "null":
                return Values((None,))
            case "array":
                return self._array(schema, pointer)
            case _:
                return self._object(schema, pointer)

    def _object(self, schema: dict[str, Any], pointer: str) -> Object:
        declared, names = declared_members(schema), further_members(schema)
        further: Further | None = None
        if names is not None:
            place = "additionalProperties" if names.pattern is None else "patternProperties"
            further = Further(self.node(names.schema, f"{pointer}/{place}"), names)
        required = frozenset(schema.get("required", ()))
        members = tuple(
            Member(name, self.node(each, f"{pointer}/properties/{escape(name)}"), name in required)
            for name, each in declared.items()
        )
        counts = member_counts(schema)
        return Object(members, further, {"type": "object", **_kept(schema, OF_OBJECTS)}, *counts)

    def _array(self, schema: dict[str, Any], pointer: str) -> Array:
        first = [
            self.node(each, f"{pointer}/prefixItems/{at}")
            for at, each in enumerate(schema.get("prefixItems", ()))
        ]
        further = self.node(schema.get("items", True), f"{pointer}/items")
        least, most = int(schema.get("minItems", 0)), schema.get("maxItems")
        return Array(tuple(first), further, least, None if most is None else int(most))


def _kept(schema: dict[str, Any], keywords: tuple[str, ...]) -> dict[str, Any]:
    return {keyword: schema[keyword] for keyword in keywords if keyword in schema}


def _union(options: list[Node]) -> Node:
    different = [each for each in options if not _covered(each, options)]
    return different[0] if len(different) == 1 else Union(tuple(different))


def _covered(node: Node, options: list[Node]) -> bool:
    """Return whether these are integers beside the numbers with the same bounds."""
    if not isinstance(node, Number) or node.schema["type"] != "integer":
        return False
    return Number({**node.schema, "type": "number"}) in options


def is_nothing(node: Node) -> bool:
    return isinstance(node, Union) and not node.options
