"""The objects and arrays of a schema in engine form that parametric rules can state."""

from __future__ import annotations

import json
import re
from typing import Any

from toolgate_core.pattern_match import matches
from toolgate_core.schema.regular.languages import Language, Matching, Union, texts

from ..codecs.alternatives import types

MAX_MEMBERS = 64
"""The bits of a parameter: one for each member that has a name."""
OF_OBJECTS = frozenset(
    {"properties", "required", "additionalProperties", "patternProperties"}
    | {"minProperties", "maxProperties"}
)
"""Keywords that assert something about objects only."""
_MORE = frozenset({"patternProperties", "minProperties", "maxProperties"})
"""Keywords of plain objects that are not merged."""
_OF_OTHER_TYPES = frozenset(
    {"items", "prefixItems", "minItems", "maxItems"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    | {"minLength", "maxLength", "pattern", "format"}
)
_OF_ARRAYS = frozenset({"type", "items", "minItems", "maxItems", "$defs"})
_PLAIN = re.compile(r'[^"\\\x00-\x1f\x7f\ud800-\udfff]*')


def only(node: dict[str, Any], keyword: str) -> bool:
    return keyword in node and not node.keys() - {keyword, "$defs"}


def is_plain_array(node: dict[str, Any]) -> bool:
    return node.get("type") == "array" and "items" in node and not node.keys() - _OF_ARRAYS


def is_plain_object(node: dict[str, Any]) -> bool:
    """Return whether it is an object, among other types, whose members can be in any order."""
    present = node.keys() - {"type", "$defs"}
    if "object" not in types({k: v for k, v in node.items() if k == "type"}):
        return False
    if not present & OF_OBJECTS or present - OF_OBJECTS - _OF_OTHER_TYPES:
        return False
    names = declared(node)
    if len(names) > MAX_MEMBERS or not all(map(_PLAIN.fullmatch, names)):
        return False
    if any(names[name] is False for name in node.get("required", ())):
        return False
    return _has_plain_patterns(node) and _has_plain_counts(node)


def declared(node: dict[str, Any]) -> dict[str, Any]:
    """Return the schemas of declared members, and of those that are only required, by name."""
    properties = node.get("properties", {})
    others = [name for name in node.get("required", ()) if name not in properties]
    return {**properties, **dict.fromkeys(others, node.get("additionalProperties", True))}


def possible(node: dict[str, Any]) -> dict[str, Any]:
    """Return those of `declared` that an object may have."""
    return {name: schema for name, schema in declared(node).items() if schema is not False}


def merged(parts: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return one object with the members of these, all of which it has to be; None if there is none
    that is plain."""
    if not all(types(part) == {"object"} and is_plain_object(part) for part in parts):
        return None
    if any(part.keys() & _MORE for part in parts):
        return None
    names = dict.fromkeys(name for part in parts for name in declared(part))
    others = [part.get("additionalProperties", True) for part in parts]
    made = {
        "type": "object",
        "properties": {
            name: _all([declared(p).get(name, o) for p, o in zip(parts, others, strict=True)])
            for name in names
        },
        "required": [*dict.fromkeys(n for part in parts for n in part.get("required", ()))],
        "additionalProperties": _all(others),
    }
    return made if is_plain_object(made) else None


def _all(schemas: list[Any]) -> Any:
    """Return a schema of the values that satisfy all of these."""
    if any(schema is False for schema in schemas):
        return False
    # By their text: Python takes `{"const": 1}` and `{"const": True}` for equal.
    left = [*{json.dumps(each): each for each in schemas if each not in (True, {})}.values()]
    if len(left) < 2:
        return left[0] if left else True
    return {"allOf": left}


def pattern_of_names(node: dict[str, Any], pattern: str) -> str | None:
    """Return a pattern of the names that match this one and are not declared; None if there is
    none."""
    names = [name for name in declared(node) if matches(pattern, name)]
    return (Matching(pattern) & ~texts(names)).pattern if names else pattern


def other_names(node: dict[str, Any]) -> Language:
    """Return the names that are not declared and match no pattern."""
    return ~Union((texts(declared(node)), *map(Matching, node["patternProperties"])))


def _has_plain_patterns(node: dict[str, Any]) -> bool:
    """Return whether the schema of each member is that of its name or of one pattern, and the names
    of all members are regular languages."""
    given = node.get("patternProperties", {})
    for pattern, schema in given.items():
        named = [name for name in possible(node) if matches(pattern, name)]
        if (named and schema is not True) or pattern_of_names(node, pattern) is None:
            return False
    if given and node.get("additionalProperties", True) is not False:
        others = other_names(node)
        if others.is_empty is None or others.pattern is None:
            return False
    earlier = list[Language]()
    for language in map(Matching, given):
        if any((language & each).is_empty is not True for each in earlier):
            return False
        earlier.append(language)
    return True


def _has_plain_counts(node: dict[str, Any]) -> bool:
    """Return whether a bound on the number of members is one on those that have names."""
    if "minProperties" not in node and "maxProperties" not in node:
        return True
    if node.get("additionalProperties", True) is not False or node.get("patternProperties"):
        return False
    least, required = node.get("minProperties", 0), len(node.get("required", ()))
    return bool(least <= len(possible(node)) and required <= node.get("maxProperties", required))
