"""Slips in schemas that have one possible meaning, and the schemas as they were meant.

Serializers write a missing list or map as `null` (Go) and an empty map as `[]` (PHP), Gemini's
schemas have types in capitals, and draft 3 marked a required member in the member's own schema.
What has several possible meanings is not corrected: the schema is then invalid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .keywords import ASSERTIONS, DEFINITIONS, TYPE_NAMES
from .walk import at_pointer, children, deep_copy, schemas_in

_NULL_IS_MISSING = (ASSERTIONS | {*DEFINITIONS, "dependencies", "nullable"}) - {"const", "type"}
"""`null` is a value of `const`, and `type: null` may mean the type `null`."""
_EMPTY_MAPS = frozenset(
    {"additionalProperties", "items", "patternProperties", "properties", *DEFINITIONS}
)
"""Keywords of which `[]` means `{}`."""


@dataclass(frozen=True)
class Correction:
    """One keyword that is read as it was meant."""

    pointer: str
    """JSON Pointer of the keyword in the given schema."""
    keyword: str
    meant: str
    """What it is read as, for a person."""


@dataclass(frozen=True)
class _Change:
    at: str
    """JSON Pointer of the subschema with the keyword."""
    correction: Correction
    value: Any = None
    """The value that the keyword gets. None: it is removed."""
    required_in: str | None = None
    """JSON Pointer of the subschema that requires the member `name`."""
    name: str = ""


def corrections(schema: Any) -> tuple[Correction, ...]:
    """The corrections that `corrected` makes."""
    return tuple(change.correction for change in _changes(schema))


def corrected(schema: Any) -> Any:
    """The schema as it was meant. Without slips it is the given one, otherwise a copy."""
    changes = [*_changes(schema)]
    if not changes:
        return schema
    schema = deep_copy(schema)
    for change in changes:
        node = at_pointer(schema, change.at)
        if change.value is None:
            del node[change.correction.keyword]
        else:
            node[change.correction.keyword] = change.value
        if change.required_in is not None:
            holder = at_pointer(schema, change.required_in)
            names = holder.setdefault("required", [])
            holder["required"] = names if change.name in names else [*names, change.name]
    return schema


def _changes(schema: Any) -> Iterator[_Change]:
    """In the order in which they can be made: those of a schema before those inside it."""
    pending: list[tuple[str, Any, str | None, str]] = [("", schema, None, "")]
    while pending:
        pointer, node, holder, name = pending.pop()
        if not isinstance(node, dict):
            continue
        for keyword, value in node.items():
            yield from _in_keyword(pointer, keyword, value)
        required = node.get("required")
        is_draft_3 = required is True and holder is not None
        if required is False or is_draft_3:
            meant = f"{name!r} in the object's list" if is_draft_3 else "missing"
            correction = Correction(f"{pointer}/required", "required", meant)
            yield _Change(pointer, correction, None, holder if is_draft_3 else None, name)
        members = node.get("properties")
        if isinstance(members, dict):
            # A member can be added to a list of names, also to one that the corrections remove.
            has_list = required in (None, False) or is_draft_3 or isinstance(required, list)
            at = pointer if has_list else None
            inside = schemas_in(pointer, "properties", members)
            pending += [(p, child, at, n) for (p, child), n in zip(inside, members, strict=True)]
        rest = {keyword: value for keyword, value in node.items() if keyword != "properties"}
        pending += [(p, child, None, "") for p, child in children(pointer, rest)]


def _in_keyword(pointer: str, keyword: str, value: Any) -> Iterator[_Change]:
    """The correction of one keyword, except a boolean `required`."""
    place = f"{pointer}/{keyword}"
    if value is None and keyword in _NULL_IS_MISSING:
        # A missing map of the members that exist is one without members.
        empty: dict[str, Any] | None = {} if keyword == "properties" else None
        meant = "missing" if empty is None else "{}"
        yield _Change(pointer, Correction(place, keyword, meant), empty)
    elif value == [] and keyword in _EMPTY_MAPS:
        yield _Change(pointer, Correction(place, keyword, "{}"), {})
    elif keyword == "type" and (types := _lower_case(value)) != value:
        meant = types if isinstance(types, str) else ", ".join(types)
        yield _Change(pointer, Correction(place, keyword, meant), types)


def _lower_case(value: Any) -> Any:
    """The value of `type` with the names of types in lower case."""
    if isinstance(value, str):
        return value.lower() if value.lower() in TYPE_NAMES else value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return [_lower_case(each) for each in value]
    return value
