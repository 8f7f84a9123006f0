"""`patternProperties` whose patterns exclude each other, as engines need them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from ...pattern_match import matches
from ..canonical import canonical_json
from ..regular.languages import Language, Matching, Union

MAX_PARTS = 12


@dataclass(frozen=True)
class _Part:
    """Names that match the same patterns."""

    names: Language
    patterns: tuple[str, ...]


def separate(node: dict[str, Any]) -> None:
    """Divide the names of patterns that overlap. The node stays as it is if there are too many
    parts."""
    given = node.get("patternProperties", {})
    if len(given) < 2:
        return
    parts = _parts([*given])
    if parts is None or all(len(part.patterns) == 1 for part in parts):
        return
    made: dict[str, Any] = {}
    for part in parts:
        pattern = (
            part.patterns[0] if part.names == Matching(part.patterns[0]) else part.names.pattern
        )
        if pattern is None:
            return
        made[pattern] = _all([given[each] for each in part.patterns])
    node["patternProperties"] = made


def drop_forbidden(node: dict[str, Any]) -> None:
    """Close an object if every name that no pattern matches is forbidden, and leave out forbidden
    patterns. An engine may not notice that no name is left, and masks then allow names without
    end."""
    given = node.get("patternProperties", {})
    forbidden = [pattern for pattern, schema in given.items() if schema is False]
    if not forbidden:
        return
    if node.get("additionalProperties") is not False:
        if not (~Union(tuple(map(Matching, given)))).is_empty:
            return
        node["additionalProperties"] = False
    node["patternProperties"] = {p: schema for p, schema in given.items() if p not in forbidden}
    if not node["patternProperties"]:
        del node["patternProperties"]
    for name in node.get("properties", {}):
        if any(matches(pattern, name) for pattern in forbidden):
            node["properties"][name] = False


def _parts(patterns: list[str]) -> list[_Part] | None:
    parts: list[_Part] = []
    for pattern in patterns:
        names: Language = Matching(pattern)
        rest, divided = names, list[_Part]()
        for part in parts:
            common, others = part.names & names, part.names & ~names
            empty = (common.is_empty, others.is_empty)
            if None in empty:
                return None
            if empty[0]:
                divided.append(part)
                continue
            divided.append(_Part(part.names if empty[1] else common, (*part.patterns, pattern)))
            if not empty[1]:
                divided.append(_Part(others, part.patterns))
            rest = rest & ~part.names
        if rest.is_empty is None:
            return None
        if not rest.is_empty:
            divided.append(_Part(rest, (pattern,)))
        if len(divided) > MAX_PARTS:
            return None
        parts = divided
    return parts


def _all(schemas: list[Any]) -> Any:
    """A schema of the values that satisfy all of these."""
    if any(schema is False for schema in schemas):
        return False
    left = [schema for schema in schemas if schema not in (True, {})]
    if len(left) < 2:
        return left[0] if left else True
    merged = _merged(left)
    return {"allOf": left} if merged is None else merged


def _merged(schemas: list[Any]) -> Any:
    """One schema without `allOf`, which engines would not close objects beside; None if there is
    none."""
    whole = {"allOf": schemas}
    if '"$ref"' in canonical_json(whole):
        return None  # its target is not a part of these schemas
    try:
        made = jsonschema_rs.canonicalize(whole, validate_formats=True, offline=True)
    except (ValueError, jsonschema_rs.ReferencingError, jsonschema_rs.ValidationError):
        return None
    if made.satisfiability() == jsonschema_rs.canonical.Satisfiability.NO:
        return False
    return made.to_json_schema()
