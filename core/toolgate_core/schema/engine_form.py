"""What a canonical schema says, in the words that grammar engines know.

jsonschema-rs' canonical form merges, distributes and negates; what it leaves in keywords that no
engine knows, but that others can say, is said with those here. Nothing is given up here: what can't
be said stays, for `obstacles` to find.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import jsonschema_rs

from .formats import BUILT_IN, CHECKED, LENGTHS, PATTERNS
from .keywords import ASSERTIONS, DEFINITIONS
from .refs import gathered, links
from .strings import none_of
from .walk import copied, reachable, subschemas

KNOWN_FORMATS = BUILT_IN | CHECKED | PATTERNS.keys()


_LAST = frozenset({"$ref", "allOf", "anyOf", "const", "enum"})
"""llguidance takes keywords in their order and breaks off before these: what stands on two sides of
one is merged as if it were of two schemas, where `additionalProperties` means another thing."""


class Order:
    """In which order a schema names its properties: engines write members in that order, and the
    canonical form has sorted them."""

    def __init__(self, schema: Any) -> None:
        self._lists: list[list[str]] = []
        self._listed: dict[str, list[int]] = {}
        for _, node in reachable(schema):
            if isinstance(node.get("properties"), dict):
                self._lists.append(list(node["properties"]))
                for name in self._lists[-1]:
                    self._listed.setdefault(name, []).append(len(self._lists) - 1)

    def arranged(self, properties: dict[str, Any]) -> dict[str, Any]:
        """In the order of the list that shares most names with them, then of any other."""
        common = Counter(at for name in properties for at in self._listed.get(name, ()))
        names = [name for at, _ in common.most_common() for name in self._lists[at]]
        known = [name for name in dict.fromkeys(names) if name in properties]
        return {name: properties[name] for name in dict.fromkeys([*known, *properties])}


def fitted(schema: Any, order: Order) -> Any:
    """A copy of a normalised or canonical schema, equivalent but that formats are narrowed to their
    patterns, and properties are in `order`."""
    schema = copied(schema)
    gathered(schema, links(schema))
    for _, node in [*subschemas(schema)]:
        if isinstance(node, dict):
            for keyword in [k for k in node if k not in ASSERTIONS and k not in DEFINITIONS]:
                del node[keyword]
            _format(node)
            _not(node)
            _property_names(node)
            _counts(node)
            _whole(node)
            if isinstance(node.get("properties"), dict):
                node["properties"] = order.arranged(node["properties"])
            for keyword in _LAST & node.keys():
                node[keyword] = node.pop(keyword)
    return schema


def _format(node: dict[str, Any]) -> None:
    name = node.get("format")
    if name not in KNOWN_FORMATS:
        node.pop("format", None)
    if name in PATTERNS:
        del node["format"]
        _match(node, PATTERNS[name])
    if name in LENGTHS:
        node["maxLength"] = min(node.get("maxLength", LENGTHS[name]), LENGTHS[name])


def _match(node: dict[str, Any], patterns: tuple[str, ...]) -> None:
    """Strings must match these as well."""
    for pattern in patterns:
        if "pattern" not in node:
            node["pattern"] = pattern
        else:
            node["allOf"] = [*node.get("allOf", ()), {"pattern": pattern}]


def _not(node: dict[str, Any]) -> None:
    """`not` of strings alone."""
    negated = node.get("not")
    if node.get("type") != "string" or not isinstance(negated, dict):
        return
    if negated.keys() == {"enum"} or negated.keys() == {"const"}:
        values = negated.get("enum", [negated.get("const")])
        pattern = none_of(value for value in values if isinstance(value, str))
        if pattern is not None:
            del node["not"]
            _match(node, (pattern,))


def _property_names(node: dict[str, Any]) -> None:
    """`propertyNames` by `additionalProperties: false` beside names or a pattern."""
    names = node.get("propertyNames")
    if names is True or names == {}:
        del node["propertyNames"]
    if not isinstance(names, dict) or "patternProperties" in node:
        return
    rest = node.get("additionalProperties", True)
    declared = node.get("properties", {})
    listed = names.get("enum", [names["const"]] if "const" in names else None)
    if listed is not None and not names.keys() - {"enum", "const", "type"}:
        allowed = {name: declared.get(name, rest) for name in listed if isinstance(name, str)}
        node["properties"] = allowed
    elif names.keys() <= {"pattern", "type"} and isinstance(names.get("pattern"), str):
        kept = {n: s for n, s in declared.items() if _is_valid(names, n)}
        if kept and rest not in (True, {}):
            return  # those would have to be what the others are as well
        node["properties"] = kept
        node["patternProperties"] = {names["pattern"]: rest}
    else:
        return
    node["additionalProperties"] = False
    del node["propertyNames"]


def _is_valid(schema: Any, instance: object) -> bool:
    return jsonschema_rs.is_valid(schema, instance)


def _counts(node: dict[str, Any]) -> None:
    """Bounds on the number of members that are held anyway."""
    required = set(node.get("required", ()))
    least = node.get("minProperties")
    if isinstance(least, int) and least <= len(required):
        del node["minProperties"]
    most = node.get("maxProperties")
    closed = node.get("additionalProperties") is False and not node.get("patternProperties")
    if isinstance(most, int) and closed and len(node.get("properties", {})) <= most:
        del node["maxProperties"]


def _whole(node: dict[str, Any]) -> None:
    """`multipleOf: 1` by the type `integer`."""
    if node.get("multipleOf") == 1 and node.get("type") in ("integer", "number"):
        del node["multipleOf"]
        node["type"] = "integer"
