"""Slips in schemas that have one possible meaning, and the schemas as they were meant.

Serializers write a missing list or map as `null` (Go) and an empty map as `[]` (PHP), Gemini's
schemas have types in capitals, programming languages have other names for them, draft 3 marked a
required member in the member's own schema, and references stay as they were in another document.
What has several possible meanings is not corrected: the schema is then invalid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from .keywords import ASSERTIONS, DEFINITIONS, TYPE_NAMES
from .walk import at_pointer, children, deep_copy, pointer_of_ref, schemas_in, subschemas

_NULL_IS_MISSING = (ASSERTIONS | {*DEFINITIONS, "dependencies", "nullable"}) - {"const", "type"}
"""`null` is a value of `const`, and `type: null` may mean the type `null`."""
_EMPTY_MAPS = frozenset(
    {"additionalProperties", "items", "patternProperties", "properties", *DEFINITIONS}
)
"""Keywords of which `[]` means `{}`."""
_OTHER_TYPES = {"dict": "object", "double": "number", "float": "number", "list": "array"}
"""Types as programming languages name them. Other names are abbreviations: `int`, `str`, `bool`."""
_NUMERIC = re.compile("multipleOf|exclusiveM(in|ax)imum|m(in|ax)(imum|[A-Z][a-z]+)")
"""Keywords with a number."""
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?")
_DEFINITION = "/$defs/"
MAX_REFERENCE = 300
"""Maximum length of a `$ref` and of its place that is corrected, in characters."""


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
    spelled: dict[str, list[str]] = {}
    while pending:
        pointer, node, holder, name = pending.pop()
        if not isinstance(node, dict):
            continue
        if meant := _meant(schema, node.get("$ref"), pointer, spelled):
            yield _Change(pointer, Correction(f"{pointer}/$ref", "$ref", meant), meant)
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
    elif keyword == "type" and (types := _types(value)) != value:
        meant = types if isinstance(types, str) else ", ".join(types)
        yield _Change(pointer, Correction(place, keyword, meant), types)
    elif isinstance(value, str) and _NUMERIC.fullmatch(keyword) and _NUMBER.fullmatch(value):
        yield _Change(pointer, Correction(place, keyword, value), json.loads(value))


def _types(value: Any) -> Any:
    """The value of `type` with the names that JSON Schema has for the types."""
    if isinstance(value, str):
        name = value.lower()
        meant = [each for each in TYPE_NAMES if each.startswith(_OTHER_TYPES.get(name, name))]
        return meant[0] if len(meant) == 1 and len(name) > 2 else value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return [*dict.fromkeys(map(_types, value))]
    return value


def _meant(schema: Any, ref: Any, at: str, spelled: dict[str, list[str]]) -> str | None:
    """What a `$ref` without a target in the schema at `at` is read as. It may be relative to a
    schema around it that was a document of its own, or name a definition elsewhere. `spelled`: see
    `_spelled`; empty before it was needed."""
    wanted = pointer_of_ref(ref)
    if not wanted or len(at) + len(wanted) > MAX_REFERENCE:
        return None
    with suppress(LookupError, ValueError):
        if isinstance(at_pointer(schema, wanted), dict | bool):
            return None
    spelled |= {} if spelled else _spelled(schema)
    wanted, at = _plain(wanted), _plain(at)
    around = [at[: slash.start()] + wanted for slash in re.finditer("/|$", at)]
    for text in (*reversed(around), wanted.rpartition(_DEFINITION)[2].removeprefix("/")):
        if found := spelled.get(text):
            return "#" + found[0].replace("%", "%25") if len(found) == 1 else None
    return None


def _spelled(schema: Any) -> dict[str, list[str]]:
    """The pointers of all schemas inside a schema, by what references to them may spell."""
    spelled: dict[str, list[str]] = {}
    for pointer, node in subschemas(schema):
        if pointer and isinstance(node, dict) and not {"$id", "id"}.isdisjoint(node):
            return {"": []}  # references inside it are relative to it
        text = _plain(pointer)
        for each in {text, text.rpartition(_DEFINITION)[2]}:
            spelled.setdefault(each, []).append(pointer)
    return spelled


def _plain(pointer: str) -> str:
    """A JSON Pointer without escapes, with one spelling of definitions."""
    text = unquote(pointer).replace("~1", "/").replace("~0", "~")
    return re.sub("/(definitions|components/schemas)/", _DEFINITION, text)
