"""The negation of a schema as alternatives.

Of each keyword that may be violated, there are alternatives that say how. Those that contradict the
schemas beside the negated one are left out. Where JSON Schema has no positive keyword for a
violation, the alternative has a `not`. The negation is useful only if none of these remains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from ....pattern_match import matches
from ...regular.languages import Language, Matching, Union, texts
from ...walk import subschemas
from ..string_languages import strings_of
from .document import Document
from .emptiness import Node, members, schemas_for
from .flat_violations import flat_violations
from .other_values import any_of, both, item_at

MAX_ALTERNATIVES = 40
MAX_DEPTH = 8
"""Maximum nesting of negated schemas."""
MAX_ITEMS = 8
"""Maximum number of items of an array of which one may violate `items`."""


class NotExpressible(Exception):
    """The negation has too many alternatives, or its schema is recursive."""


class Negation:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._never = document.emptiness.never
        self._active: set[int] = set()

    def of(self, schema: Any, *beside: Any) -> list[Any]:
        """Schemas of which a value that satisfies all of `beside` satisfies at least one exactly if
        it does not satisfy `schema`. Raises NotExpressible."""
        return self._positive(self._of(schema, list(beside)), beside)

    def of_all(self, schemas: Iterable[Any], *beside: Any) -> list[Any]:
        """The same for values that satisfy none of `schemas`."""
        return self._positive(self._none(schemas, list(beside)), beside)

    def _positive(self, ways: list[Any], beside: Sequence[Any]) -> list[Any]:
        """The alternatives without `not`. Others must say nothing that these do not say, except
        where the schema is narrowed."""
        found = [way for way in ways if is_positive(way)]
        if not (found and self._document.narrowing):
            for way in ways:
                if way not in found and not self._is_implied(way, found, beside):
                    raise NotExpressible
        return found

    def _is_implied(self, way: Any, others: list[Any], beside: Sequence[Any]) -> bool:
        """Whether all values of an alternative certainly are values of another one."""
        for other in others:
            with suppress(NotExpressible):
                if not self._of(other, [*beside, way]):
                    return True
        return False

    def _of(self, schema: Any, beside: list[Any]) -> list[Any]:
        if schema is False:
            return [{}]
        if not isinstance(schema, dict):
            return []
        if id(schema) in self._active or len(self._active) >= MAX_DEPTH:
            raise NotExpressible
        self._active.add(id(schema))
        try:
            found = [way for way in self._ways(schema, beside) if not self._never(*beside, way)]
        finally:
            self._active.discard(id(schema))
        return self._limit(_merged(found))

    def _limit(self, ways: list[Any]) -> list[Any]:
        if len(ways) > MAX_ALTERNATIVES:
            raise NotExpressible
        return ways

    def _ways(self, node: Node, beside: list[Any]) -> Iterator[Any]:
        if "$ref" in node:
            yield from self._of(self._document.target(node), beside)
        for schema in node.get("allOf", ()):
            yield from self._of(schema, beside)
        if "anyOf" in node:
            yield from self._none(node["anyOf"], beside)
        if "oneOf" in node:
            if self._document.emptiness.disjoint(node["oneOf"], {"allOf": beside}):
                yield from self._none(node["oneOf"], beside)
            else:
                yield {"not": {"oneOf": node["oneOf"]}}
        if "not" in node:
            yield self._document.refer(node["not"])
        if "if" in node:
            yield from self._condition(node, beside)
        yield from flat_violations(node)
        yield from self._objects(node, beside)
        yield from self._arrays(node, beside)
        for keyword in ("$dynamicRef", "unevaluatedItems", "unevaluatedProperties"):
            if keyword in node:
                yield {"not": {keyword: node[keyword]}}

    def _none(self, options: Iterable[Any], beside: list[Any]) -> list[Any]:
        ways: list[Any] = [{}]
        for option in options:
            ways = [both(way, other) for way in ways for other in self._of(option, [*beside, way])]
            self._limit(ways)
        return ways

    def _condition(self, node: Node, beside: list[Any]) -> Iterator[Any]:
        condition = node["if"]
        for way in self._of(node.get("then", True), [*beside, condition]):
            yield both(self._document.refer(condition), way)
        if node.get("else", True) in (True, {}):
            return
        for way in self._of(condition, beside):
            for other in self._of(node["else"], [*beside, way]):
                yield both(way, other)

    def _objects(self, node: Node, beside: list[Any]) -> Iterator[Any]:
        nodes = self._document.emptiness.conjuncts(beside)
        names = self._document.emptiness.names(beside)
        for name, schema in node.get("properties", {}).items():
            yield from self._member(name, schema, nodes)
        if names is not None:
            yield from self._named(node, names, nodes)
        elif self._document.emptiness.has_one_member(beside):
            yield from self._one_member(node, nodes)
        else:
            yield from _some_member(node)
        for name, schema in node.get("dependentSchemas", {}).items():
            present = _object({"required": [name]})
            for way in self._of(schema, [*beside, present]):
                yield both(present, way)

    def _named(self, node: Node, names: list[str], nodes: list[Node]) -> Iterator[Any]:
        """Objects of which the names of all members are known."""
        for pattern, schema in node.get("patternProperties", {}).items():
            for name in filter(lambda name: matches(pattern, name), names):
                yield from self._member(name, schema, nodes)
        if node.get("additionalProperties", True) not in (True, {}):
            declared = {k: v for k, v in node.items() if k != "additionalProperties"}
            for name in names:
                if not members(declared, name):
                    yield from self._member(name, node["additionalProperties"], nodes)
        if "propertyNames" in node:
            for name in names:
                if self._never(node["propertyNames"], {"const": name}):
                    yield _object({"required": [name]})
                elif self._of(node["propertyNames"], [{"const": name}]):
                    yield {"not": {"propertyNames": node["propertyNames"]}}

    def _one_member(self, node: Node, nodes: list[Node]) -> Iterator[Any]:
        """Objects with at most one member: they have one, of such a name and such a value."""
        patterns = node.get("patternProperties", {})
        kinds: list[tuple[Language, Any]] = [
            (Matching(pattern), schema) for pattern, schema in patterns.items()
        ]
        if "additionalProperties" in node:
            declared = Union((texts(node.get("properties", ())), *map(Matching, patterns)))
            kinds.append((~declared, node["additionalProperties"]))
        if "propertyNames" in node:
            allowed = strings_of(node["propertyNames"], self._document.target)
            if allowed is None:
                raise NotExpressible
            kinds.append((~allowed, False))
        for names, schema in kinds:
            if names.is_empty:
                continue
            pattern = names.source if isinstance(names, Matching) else names.pattern
            for way in self._of(schema, schemas_for(nodes, [names])):
                if pattern is None:
                    raise NotExpressible
                some = {"patternProperties": {pattern: way}, "propertyNames": {"pattern": pattern}}
                yield _object({"minProperties": 1, **some})

    def _member(self, name: str, schema: Any, nodes: list[Node]) -> Iterator[Any]:
        beside = [each for node in nodes for each in members(node, name)]
        for way in self._of(schema, beside):
            yield _object({"required": [name], "properties": {name: way}})

    def _arrays(self, node: Node, beside: list[Any]) -> Iterator[Any]:
        first = node.get("prefixItems", [])
        for at, schema in enumerate(first):
            for way in self._of(schema, []):
                yield item_at(at, way)
        if "items" in node:
            most = self._document.emptiness.most_items(beside)
            if most is None or most > MAX_ITEMS:
                if node["items"] not in (True, {}):
                    some = {k: v for k, v in node.items() if k in ("prefixItems", "items")}
                    yield {"type": "array", "not": some}
            else:
                for way in self._of(node["items"], []):
                    yield from (item_at(at, way) for at in range(len(first), most))
        if "contains" in node:
            counts = (node.get("minContains", 1), node.get("maxContains"))
            if counts == (1, None):
                ways = self._of(node["contains"], [])
                yield {"type": "array", "items": any_of(ways)}
            elif counts != (0, None):
                keywords = ("contains", "minContains", "maxContains")
                some = {k: v for k, v in node.items() if k in keywords}
                yield {"type": "array", "not": some}


def is_positive(schema: Any) -> bool:
    """Whether a schema has no `not`, except of given strings."""
    for _, node in subschemas(schema):
        negated = node.get("not") if isinstance(node, dict) else None
        if negated is None:
            continue
        if not isinstance(negated, dict) or negated.keys() != {"enum"}:
            return False
        if not all(isinstance(value, str) for value in negated["enum"]):
            return False
    return True


def _some_member(node: Node) -> Iterator[Any]:
    """Objects of any members, of which one is a violation."""
    for pattern, schema in node.get("patternProperties", {}).items():
        if schema not in (True, {}):
            yield _object({"not": {"patternProperties": {pattern: schema}}})
    if node.get("additionalProperties", True) not in (True, {}):
        members_of = ("properties", "patternProperties", "additionalProperties")
        yield _object({"not": {k: v for k, v in node.items() if k in members_of}})
    if "propertyNames" in node:
        yield _object({"not": {"propertyNames": node["propertyNames"]}})


def _object(keywords: Node) -> Node:
    return {"type": "object", **keywords}


def _merged(ways: list[Any]) -> list[Any]:
    """Alternatives about the same member as one, except those with `not`."""
    found: list[Any] = []
    by_name: dict[str, list[Any]] = {}
    for way in ways:
        match way:
            case {"type": "object", "required": [str(name)], "properties": inside} if (
                len(way) == 3
                and len(inside) == 1
                and inside.get(name, False) is not False
                and is_positive(inside[name])
            ):
                if name not in by_name:
                    by_name[name] = []
                    found.append(name)
                by_name[name].append(inside[name])
            case _:
                found.append(way)
    return [
        _object({"required": [each], "properties": {each: any_of(by_name[each])}})
        if isinstance(each, str)
        else each
        for each in found
    ]
