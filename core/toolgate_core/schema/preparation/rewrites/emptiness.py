"""Proofs that no value satisfies several schemas at once.

A proof is certain. Its absence says nothing: keywords that it does not understand are ignored, and
the number of steps is limited.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import jsonschema_rs

from ....pattern_match import matches
from ...canonical import canonical_json
from ...regular.languages import Intersection, Language, Matching
from .facts import TYPES, bounds, counts_of, no_multiple, strings_empty, types_of

MAX_STEPS = 4_000
"""Maximum number of conjunctions that one `Emptiness` looks at."""
MAX_DEPTH = 30
"""Maximum nesting of values and choices in a proof."""
MAX_ITEMS = 4
"""Number of items of an array that a proof looks at."""

_SPLIT = frozenset(
    {"$defs", "$ref", "allOf", "anyOf", "definitions", "else", "if", "oneOf", "then"}
)
_FLAT = frozenset(
    {"type", "format", "maxItems", "maxLength", "maxProperties", "maximum", "exclusiveMaximum"}
    | {"minItems", "minLength", "minProperties", "minimum", "exclusiveMinimum", "multipleOf"}
    | {"pattern", "required", "uniqueItems", "dependentRequired"}
)
"""Keywords without schemas inside."""

Node = dict[str, Any]


class Emptiness:
    """`target` gives the target of the reference of a schema."""

    def __init__(self, target: Callable[[Node], Any], steps: int = MAX_STEPS) -> None:
        self._target = target
        self._steps = steps

    def never(self, *schemas: Any) -> bool:
        """Whether certainly no value satisfies all these schemas."""
        return self._never([], [], list(schemas), 0)

    def disjoint(self, options: Sequence[Any], beside: Any = True) -> bool:
        """Whether certainly no value satisfies two of these schemas. `beside`: a schema that all
        values satisfy."""
        return all(
            self.never(beside, one, other)
            for at, one in enumerate(options)
            for other in options[:at]
        )

    def conjuncts(self, schemas: Sequence[Any]) -> list[Node]:
        """Nodes that all values of these schemas satisfy, without combining keywords."""
        return self.parts(schemas)[0]

    def parts(self, schemas: Sequence[Any]) -> tuple[list[Node], list[list[Any]]]:
        """These nodes, and choices between schemas of which the values satisfy one each."""
        nodes: list[Node] = []
        choices: list[list[Any]] = []
        self._add([*schemas], nodes, choices)
        return nodes, choices

    def names(self, schemas: Sequence[Any]) -> list[str] | None:
        """The names that members of objects of all these schemas can have; None if unknown."""
        nodes = self.conjuncts(schemas)
        found: list[str] | None = None
        for node in nodes:
            if node.get("additionalProperties") is False and not node.get("patternProperties"):
                here = [n for n, s in node.get("properties", {}).items() if s is not False]
                found = here if found is None else [name for name in found if name in here]
        if found is None:
            required = sorted({name for node in nodes for name in node.get("required", ())})
            most = counts_of(nodes, "Properties")[1]
            found = required if most is not None and len(required) >= most else None
        return found

    def has_one_member(self, schemas: Sequence[Any]) -> bool:
        """Whether objects of all these schemas have at most one member."""
        most = counts_of(self.conjuncts(schemas), "Properties")[1]
        return most is not None and most <= 1

    def listed(self, schemas: Sequence[Any]) -> list[Any] | None:
        """The values that an enumeration in all these schemas has; None if there is none."""
        nodes = self.conjuncts(schemas)
        values = listed_in(nodes)
        return values and [value for value in values if not self._excluded(nodes, value, 0)]

    def most_items(self, schemas: Sequence[Any]) -> int | None:
        """The largest number of items of arrays of all these schemas."""
        return counts_of(self.conjuncts(schemas), "Items")[1]

    def _never(
        self, nodes: list[Node], choices: list[list[Any]], more: list[Any], depth: int
    ) -> bool:
        """`nodes` and `choices` are known conjuncts, `more` further ones in any form."""
        if depth > MAX_DEPTH or self._steps <= 0:
            return False
        self._steps -= 1
        nodes, choices = [*nodes], [*choices]
        if not self._add(more, nodes, choices):
            return True
        if self._empty(nodes, depth):
            return True
        if not choices:
            return False
        options, *rest = choices
        return all(self._never(nodes, rest, [option], depth + 1) for option in options)

    def _add(self, more: list[Any], nodes: list[Node], choices: list[list[Any]]) -> bool:
        """Take schemas apart into conjuncts without combining keywords, and choices between
        schemas. The result is False if one of them is `false`."""
        pending, seen = [*more], set[int]()
        while pending:
            node = pending.pop()
            if node is False:
                return False
            if not isinstance(node, dict) or id(node) in seen:
                continue
            seen.add(id(node))
            if "$ref" in node:
                pending.append(self._target(node))
            pending.extend(node.get("allOf", ()))
            choices.extend(node[keyword] for keyword in ("anyOf", "oneOf") if keyword in node)
            if "if" in node:
                both = {"allOf": [node["if"], node.get("then", True)]}
                choices.append([both, node.get("else", True)])
            plain = {k: v for k, v in node.items() if k not in _SPLIT}
            if plain.get("not") in (True, {}):
                return False
            if plain:
                nodes.append(plain)
        return True

    def _empty(self, nodes: list[Node], depth: int) -> bool:
        types = set(TYPES)
        for node in nodes:
            types &= types_of(node)
        values = listed_in(nodes)
        if values is not None:
            return all(self._excluded(nodes, value, depth) for value in values)
        return all(self._type_empty(kind, nodes, depth) for kind in types)

    def _type_empty(self, kind: str, nodes: list[Node], depth: int) -> bool:
        match kind:
            case "number":
                return bounds(nodes).empty or no_multiple(nodes)
            case "string":
                return strings_empty(nodes)
            case "array":
                return self._arrays_empty(nodes, depth)
            case "object":
                return self._objects_empty(nodes, depth)
            case _:
                return False

    def _arrays_empty(self, nodes: list[Node], depth: int) -> bool:
        least, most = counts_of(nodes, "Items")
        if most is not None and least > most:
            return True
        return any(
            self._never([], [], [item_of(node, at) for node in nodes], depth + 1)
            for at in range(min(least, MAX_ITEMS))
        )

    def _objects_empty(self, nodes: list[Node], depth: int) -> bool:
        required, dependent = set[str](), list[Any]()
        pending = {name for node in nodes for name in node.get("required", ())}
        while pending:
            required |= pending
            pending = {
                name
                for node in nodes
                for present, names in node.get("dependentRequired", {}).items()
                if present in required
                for name in names
            } - required
        for node in nodes:
            negated = node.get("not")
            if (
                isinstance(negated, dict)
                and negated.keys() == {"required"}
                and required.issuperset(negated["required"])
            ):
                return True
            dependent += [s for n, s in node.get("dependentSchemas", {}).items() if n in required]
        least, most = counts_of(nodes, "Properties")
        if most is not None and max(least, len(required)) > most:
            return True
        if any(self._member_empty(nodes, name, depth) for name in sorted(required)):
            return True
        if least and self._some_member_empty(nodes, depth):
            return True
        if not dependent:
            return False
        rest = [{k: v for k, v in node.items() if k != "dependentSchemas"} for node in nodes]
        return self._never([*rest, {"type": "object"}], [], dependent, depth + 1)

    def _member_empty(self, nodes: list[Node], name: str, depth: int) -> bool:
        """Whether no object of these nodes has a member of this name."""
        schemas = [schema for node in nodes for schema in members(node, name)]
        if self._never([], [], schemas, depth + 1):
            return True
        return any(
            self._never([], [], [node["propertyNames"], {"const": name}], depth + 1)
            for node in nodes
            if "propertyNames" in node
        )

    def _some_member_empty(self, nodes: list[Node], depth: int) -> bool:
        """Whether no object of these nodes has a member of any name."""
        names = [node["propertyNames"] for node in nodes if "propertyNames" in node]
        patterns = [
            each["pattern"] for each in names if isinstance(each, dict) and "pattern" in each
        ]
        if not patterns:
            return False
        languages = [Matching(pattern) for pattern in patterns]
        if Intersection(tuple(languages)).is_empty:
            return True
        return self._never([], [], schemas_for(nodes, languages), depth + 1)

    def _excluded(self, nodes: list[Node], value: Any, depth: int) -> bool:
        """Whether one of the nodes excludes a value."""
        for node in nodes:
            flat = {k: v for k, v in node.items() if k in _FLAT}
            listed = listed_in([node])
            if listed is not None and not any(same(value, each) for each in listed):
                return True
            if "not" in node and self._satisfies(value, node["not"]):
                return True
            if flat and not _is_valid(canonical_json(flat), canonical_json(value)):
                return True
        parts: Iterator[tuple[Any, list[Any]]] = iter(())
        if isinstance(value, dict):
            parts = (
                (each, [s for node in nodes for s in members(node, name)])
                for name, each in value.items()
            )
        elif isinstance(value, list):
            parts = ((each, [item_of(node, at) for node in nodes]) for at, each in enumerate(value))
        return any(
            self._never([], [], [{"const": each}, *schemas], depth + 1) for each, schemas in parts
        )

    def _satisfies(self, value: Any, schema: Any) -> bool:
        """Whether a value certainly satisfies a schema. Only for schemas of few keywords."""
        if not isinstance(schema, dict):
            return schema is True
        if not schema.keys() <= _FLAT | {"enum", "const"}:
            return False
        return _is_valid(canonical_json(schema), canonical_json(value))


def members(node: Node, name: str) -> list[Any]:
    """The schemas that a node has for the member of this name."""
    found = []
    if name in node.get("properties", {}):
        found.append(node["properties"][name])
    found += [s for p, s in node.get("patternProperties", {}).items() if matches(p, name)]
    if not found and "additionalProperties" in node:
        found.append(node["additionalProperties"])
    return found


def schemas_for(nodes: list[Node], names: Sequence[Language]) -> list[Any]:
    """The schemas of `patternProperties` that nodes have for all names of one of these
    languages."""
    return [
        schema
        for node in nodes
        for pattern, schema in node.get("patternProperties", {}).items()
        if any(each == Matching(pattern) or Matching(pattern).contains(each) for each in names)
    ]


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal in JSON Schema."""
    return jsonschema_rs.is_valid({"const": one}, other)


@lru_cache(maxsize=4_096)
def _is_valid(schema: str, value: str) -> bool:
    try:
        return jsonschema_rs.is_valid(json.loads(schema), json.loads(value), validate_formats=True)
    except (ValueError, jsonschema_rs.ValidationError):
        return True


def item_of(node: Node, at: int) -> Any:
    """The schema that a node has for the item at this place."""
    first = node.get("prefixItems", [])
    return first[at] if at < len(first) else node.get("items", True)


def listed_in(nodes: list[Node]) -> list[Any] | None:
    """The values of the shortest enumeration; None if there is none."""
    lists = [node["enum"] for node in nodes if "enum" in node]
    lists += [[node["const"]] for node in nodes if "const" in node]
    return min(lists, key=len, default=None)
