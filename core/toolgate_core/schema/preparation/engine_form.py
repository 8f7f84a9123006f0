"""A schema rewritten in the keywords that grammar engines support.

The canonical form of jsonschema-rs merges, distributes and negates. It can still have keywords that
no engine supports. Where other keywords are equivalent to them, they are replaced here. The others
stay unchanged, and `unsupported` finds them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jsonschema_rs

from ...pattern_match import matches
from ..closed_objects import are_closed
from ..formats import BUILT_IN, CHECKED, LENGTHS, PATTERNS
from ..keywords import ASSERTIONS, DEFINITIONS
from ..refs import find_references, move_targets_to_defs
from ..regular.languages import Matching, Union, texts
from ..regular.reading import parse
from ..regular.text import text_of
from ..regular.whole import has_inner_anchor, whole
from ..strings import is_maskable, pattern_excluding
from ..walk import at_pointer, deep_copy, pointer_of_ref, reachable, subschemas
from . import member_counts, patterns
from .listed_numbers import list_numbers
from .string_languages import strings_of
from .white_space import with_certain_white_space

Target = Callable[[dict[str, Any]], Any]
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

    def target(node: dict[str, Any]) -> Any:
        pointer = pointer_of_ref(node["$ref"])
        return None if pointer is None else at_pointer(schema, pointer)

    closed = are_closed(schema)
    for _, node in subschemas(schema):
        if isinstance(node, dict):
            _property_names(node, target)
            patterns.separate(node)
            patterns.drop_forbidden(node)
            member_counts.divide(node, closed)
    for _, node in [*subschemas(schema)]:
        if isinstance(node, dict):
            for keyword in [k for k in node if k not in ASSERTIONS and k not in DEFINITIONS]:
                del node[keyword]
            _format(node)
            _not(node, target)
            _counts(node)
            _patterns(node)
            _whole(node)
            list_numbers(node)
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


def _match(node: dict[str, Any], patterns: tuple[str, ...]) -> None:
    """Require strings to match these patterns too."""
    for pattern in patterns:
        if "pattern" not in node:
            node["pattern"] = pattern
        else:
            node["allOf"] = [*node.get("allOf", ()), {"pattern": pattern}]


def _patterns(node: dict[str, Any]) -> None:
    """Values have characters that every validator accepts. Names match exactly: others than those
    of a pattern may be allowed, too."""
    if "pattern" in node:
        node["pattern"] = _for_engines(node["pattern"], certain=True)
    if "patternProperties" in node:
        given = node["patternProperties"]
        made = {_for_engines(p, certain=False): given[p] for p in given}
        node["patternProperties"] = made if len(made) == len(given) else given


def _for_engines(pattern: str, *, certain: bool) -> str:
    """The pattern with anchors only where engines read them. `certain`: whether it matches none of
    the disputed characters."""
    if not is_maskable(pattern):
        return pattern
    given = parse(pattern)
    part = with_certain_white_space(given) if certain else given
    if has_inner_anchor(part):
        return f"^(?:{text_of(whole(part))})$"
    return pattern if part == given else text_of(part)


def _not(node: dict[str, Any], target: Target) -> None:
    """Replace a `not` of strings with a pattern."""
    negated = node.get("not")
    if node.get("type") != "string" or not isinstance(negated, dict):
        return
    if negated.keys() == {"enum"} or negated.keys() == {"const"}:
        values = negated.get("enum", [negated.get("const")])
        pattern = pattern_excluding(value for value in values if isinstance(value, str))
    else:
        excluded = strings_of(negated, target)
        pattern = None if excluded is None else (~excluded).pattern
    if pattern is not None:
        del node["not"]
        _match(node, (pattern,))


def _property_names(node: dict[str, Any], target: Target) -> None:
    """Replace `propertyNames` with properties or patterns."""
    names = node.get("propertyNames")
    if names is True or names == {}:
        del node["propertyNames"]
    elif isinstance(names, dict) and not _only_names(node, names):
        _exclude_names(node, names, target)


def _only_names(node: dict[str, Any], names: dict[str, Any]) -> bool:
    """Declare the members that `propertyNames` allows, if it is a list or one pattern."""
    if "patternProperties" in node:
        return False
    rest = node.get("additionalProperties", True)
    declared = node.get("properties", {})
    listed = names.get("enum", [names["const"]] if "const" in names else None)
    if listed is not None and not names.keys() - {"enum", "const", "type"}:
        allowed = {name: declared.get(name, rest) for name in listed if isinstance(name, str)}
        node["properties"] = allowed
    elif names.keys() <= {"pattern", "type"} and isinstance(names.get("pattern"), str):
        kept = {n: s for n, s in declared.items() if _is_valid(names, n)}
        if kept and rest not in (True, {}):
            return False  # the declared properties would have to satisfy the schema of the rest too
        node["properties"] = kept
        node["patternProperties"] = {names["pattern"]: rest}
    else:
        return False
    node["additionalProperties"] = False
    del node["propertyNames"]
    return True


def _exclude_names(node: dict[str, Any], names: dict[str, Any], target: Target) -> None:
    """Forbid members whose names `propertyNames` does not allow."""
    allowed = strings_of(names, target)
    if allowed is None:
        return
    members = _members(node, names)
    described = Union((texts(members["properties"]), *map(Matching, members["patternProperties"])))
    if described.contains(allowed) and allowed.contains(described):
        node |= {keyword: value for keyword, value in members.items() if value}
        node["additionalProperties"] = False
        del node["propertyNames"]
        return
    others = (~allowed).pattern
    if others is not None:
        node["patternProperties"] = {**node.get("patternProperties", {}), others: False}
        del node["propertyNames"]


def _members(node: dict[str, Any], names: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The properties and patterns of a node, with those that `propertyNames` has."""
    rest = node.get("additionalProperties", True)
    properties = dict(node.get("properties", {}))
    patterns = dict(node.get("patternProperties", {}))
    given = [*patterns]
    for option in names.get("anyOf", [names]):
        if not isinstance(option, dict):
            continue
        if "pattern" in option and rest in (True, {}):
            patterns.setdefault(option["pattern"], True)
        for name in option.get("enum", ()):
            if isinstance(name, str) and name not in properties:
                properties[name] = any(matches(pattern, name) for pattern in given) or rest
    return {"properties": properties, "patternProperties": patterns}


def _is_valid(schema: Any, instance: object) -> bool:
    return jsonschema_rs.is_valid(schema, instance)


def _counts(node: dict[str, Any]) -> None:
    """Remove bounds on the number of properties that other keywords imply or contradict."""
    required = dict.fromkeys(node.get("required", ()))
    least = node.get("minProperties")
    if isinstance(least, int) and least <= len(required):
        del node["minProperties"]
    most = node.get("maxProperties")
    if node.get("additionalProperties") is not False or node.get("patternProperties"):
        return
    declared = node.get("properties", {})
    if isinstance(most, int) and len(declared) <= most:
        del node["maxProperties"]
    allowed = [name for name, schema in declared.items() if schema is not False]
    if node.get("minProperties", 0) > len(allowed):
        # No object is accepted. Engines notice that a required member is forbidden.
        del node["minProperties"]
        node["required"] = [*required, "".join(declared) + "-"]


def _whole(node: dict[str, Any]) -> None:
    """Replace `multipleOf: 1` with the type `integer`."""
    if node.get("multipleOf") == 1 and node.get("type") in ("integer", "number"):
        del node["multipleOf"]
        node["type"] = "integer"
