"""A schema rewritten in the keywords that grammar engines support.

The canonical form of jsonschema-rs merges, distributes and negates. It can still have keywords that
no engine supports. Where other keywords are equivalent to them, they are replaced here. The others
stay unchanged, and `unsupported` finds them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from ..formats import BUILT_IN, CHECKED, LENGTHS, PATTERNS
from ..keywords import ASSERTIONS, DEFINITIONS
from ..patterns import for_engines
from ..walk import deep_copy, find_references, move_targets_to_defs, reachable, subschemas

KNOWN_FORMATS = BUILT_IN | CHECKED | PATTERNS.keys()


_LAST = frozenset({"$ref", "allOf", "anyOf", "const", "enum"})
"""Keywords that must be last. llguidance reads keywords in order and stops at these. It merges the
keywords before and after one of them like two schemas, which changes `additionalProperties`."""


class PropertyOrder:
    """The order in which a schema declares its properties. Engines write members in that order, and
    the canonical form loses it."""

    def __init__(self, schema: Any) -> None:
        self._lists: list[list[str]] = []
        self._listed: dict[str, list[int]] = {}
        for _, node in reachable(schema):
            if isinstance(node.get("properties"), dict):
                self._lists.append(list(node["properties"]))
                for name in self._lists[-1]:
                    self._listed.setdefault(name, []).append(len(self._lists) - 1)

    def sort(self, properties: dict[str, Any]) -> dict[str, Any]:
        """Properties in the order of the declaration that shares most names with them, then of the
        other declarations."""
        common = Counter(at for name in properties for at in self._listed.get(name, ()))
        names = [name for at, _ in common.most_common() for name in self._lists[at]]
        known = [name for name in dict.fromkeys(names) if name in properties]
        return {name: properties[name] for name in dict.fromkeys([*known, *properties])}


def to_engine_form(schema: Any, order: PropertyOrder) -> Any:
    """A copy of a normalised or canonical schema, with its properties in `order`. It is equivalent,
    except that formats are narrowed to their patterns."""
    schema = deep_copy(schema)
    move_targets_to_defs(schema, find_references(schema))
    for _, node in [*subschemas(schema)]:
        if isinstance(node, dict):
            for keyword in [k for k in node if k not in ASSERTIONS and k not in DEFINITIONS]:
                del node[keyword]
            _property_names(node)
            _format(node)
            _patterns(node)
            if isinstance(node.get("properties"), dict):
                node["properties"] = order.sort(node["properties"])
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


def _match(node: dict[str, Any], patterns: Iterable[str]) -> None:
    """Require strings to match these patterns too."""
    for pattern in patterns:
        if "pattern" not in node:
            node["pattern"] = pattern
        else:
            node["allOf"] = [*node.get("allOf", ()), {"pattern": pattern}]


def _patterns(node: dict[str, Any]) -> None:
    if "pattern" in node:
        node["pattern"], *others = for_engines(node["pattern"])
        _match(node, others)
    if "patternProperties" in node:
        members = {for_engines(p): schema for p, schema in node["patternProperties"].items()}
        if len(members) == len(node["patternProperties"]) and all(len(p) == 1 for p in members):
            node["patternProperties"] = {p[0]: schema for p, schema in members.items()}


def _property_names(node: dict[str, Any]) -> None:
    """Declare the members that `propertyNames` allows, if it lists them, or if it is one pattern
    and no member is declared."""
    names = node.get("propertyNames")
    if names is True or names == {}:
        del node["propertyNames"]
    if not isinstance(names, dict) or names == {} or "patternProperties" in node:
        return
    rest = node.get("additionalProperties", True)
    declared = node.get("properties", {})
    listed = names.get("enum", [names["const"]] if "const" in names else None)
    if listed is not None and not names.keys() - {"enum", "const", "type"}:
        allowed = {name: declared.get(name, rest) for name in listed if isinstance(name, str)}
        node["properties"] = allowed
    elif names.keys() <= {"pattern", "type"} and "pattern" in names and not declared:
        node["patternProperties"] = {names["pattern"]: rest}
    else:
        return
    node["additionalProperties"] = False
    del node["propertyNames"]
