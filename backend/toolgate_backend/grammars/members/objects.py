"""The objects and arrays of a schema in engine form that parametric rules can state."""

from __future__ import annotations

import json
import re
from typing import Any

from toolgate_core.schema.preparation.further_members import declared_members, further_members

from ..codecs.alternatives import types
from ..codecs.nodes import BOUNDS, OF_ARRAYS, OF_OBJECTS, OF_TEXT
from ..codecs.rules import MAX_UNORDERED

_MORE = frozenset({"patternProperties", "minProperties", "maxProperties"})
"""Keywords of plain objects that are not merged."""
_OF_OTHER_TYPES = frozenset({*OF_ARRAYS, *BOUNDS, *OF_TEXT}) - {"allOf"}
_OF_PLAIN_ARRAYS = frozenset({"type", "items", "minItems", "maxItems", "$defs"})
_PLAIN = re.compile(r'[^"\\\x00-\x1f\x7f\ud800-\udfff]*')


def only(node: dict[str, Any], keyword: str) -> bool:
    return keyword in node and not node.keys() - {keyword, "$defs"}


def is_plain_array(node: dict[str, Any]) -> bool:
    return node.get("type") == "array" and "items" in node and not node.keys() - _OF_PLAIN_ARRAYS


def is_plain_object(node: dict[str, Any]) -> bool:
    """Return whether it is an object, among other types, whose members can be in any order."""
    present = node.keys() - {"type", "$defs"}
    if "object" not in types({k: v for k, v in node.items() if k == "type"}):
        return False
    if not present.intersection(OF_OBJECTS) or present.difference(OF_OBJECTS, _OF_OTHER_TYPES):
        return False
    names = declared_members(node)
    if len(names) > MAX_UNORDERED or not all(map(_PLAIN.fullmatch, names)):
        return False
    if any(names[name] is False for name in node.get("required", ())):
        return False
    return further_members(node) is not None and _has_plain_counts(node)


def possible(node: dict[str, Any]) -> dict[str, Any]:
    """Return the members with names that an object may have."""
    return {name: schema for name, schema in declared_members(node).items() if schema is not False}


def merged(parts: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return one object with the members of these, all of which it has to be; None if there is none
    that is plain."""
    if not all(types(part) == {"object"} and is_plain_object(part) for part in parts):
        return None
    if any(part.keys() & _MORE for part in parts):
        return None
    names = dict.fromkeys(name for part in parts for name in declared_members(part))
    others = [part.get("additionalProperties", True) for part in parts]
    made = {
        "type": "object",
        "properties": {
            name: _all(
                [declared_members(p).get(name, o) for p, o in zip(parts, others, strict=True)]
            )
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


def _has_plain_counts(node: dict[str, Any]) -> bool:
    """Return whether a bound on the number of members is one on those that have names."""
    if "minProperties" not in node and "maxProperties" not in node:
        return True
    if node.get("additionalProperties", True) is not False or node.get("patternProperties"):
        return False
    least, required = node.get("minProperties", 0), len(node.get("required", ()))
    return bool(least <= len(possible(node)) and required <= node.get("maxProperties", required))
