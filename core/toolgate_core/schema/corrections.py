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
_OTHER_TYPES = {
    **{"any": "", "mixed": "", "dict": "object", "map": "object", "list": "array"},
    **{"bigint": "integer", "long": "integer", "short": "integer", "text": "string"},
    **{"decimal": "number", "double": "number", "float": "number"},
}
"""Types as programming languages name them; "": any type. Other names are abbreviations: `int`,
`str`, `bool`."""
_NUMERIC = re.compile("multipleOf|exclusiveM(in|ax)imum|m(in|ax)(imum|[A-Z][a-z]+)")
"""Keywords with a number."""
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?")
_DEFINITION = "/$defs/"
MISSING = "missing"
MAX_REFERENCE = 300
"""Maximum length of a `$ref` and of its place that is corrected, in characters."""


@dataclass(frozen=True)
class Correction:
    """One keyword that is read as it was meant."""

    pointer: str
    """JSON Pointer of the keyword in the given schema."""
    keyword: str
    meant: str
    """What it is read as, for a person: MISSING, if it is removed."""


def corrections(schema: Any) -> tuple[Correction, ...]:
    """Return the corrections that `corrected` makes."""
    return tuple(_correct(deep_copy(schema), schema))


def corrected(schema: Any) -> Any:
    """Return the schema as it was meant. Without slips it is the given one, otherwise a copy."""
    copy = deep_copy(schema)
    return copy if [*_correct(copy, schema)] else schema


def _correct(schema: Any, given: Any) -> Iterator[Correction]:
    """Correct a copy of the given schema in place: a schema before those inside it."""
    pending: list[tuple[str, Any, dict[str, Any] | None, str]] = [("", schema, None, "")]
    spelled: dict[str, list[str]] = {}
    while pending:
        pointer, node, holder, name = pending.pop()
        if not isinstance(node, dict):
            continue
        if meant := _meant(given, node.get("$ref"), pointer, spelled):
            node["$ref"] = meant
            yield Correction(f"{pointer}/$ref", "$ref", meant)
        for keyword, value in [*node.items()]:
            if (read := _read(keyword, value, node)) is not None:
                node[keyword], meant = read
                if meant == MISSING:
                    del node[keyword]
                yield Correction(f"{pointer}/{keyword}", keyword, meant)
        required = node.get("required")
        is_draft_3 = required is True and holder is not None
        if required is False or is_draft_3:
            del node["required"]
            if holder is not None and is_draft_3:
                names = holder.get("required", [])
                holder["required"] = names if name in names else [*names, name]
            meant = f"{name!r} in the object's list" if is_draft_3 else MISSING
            yield Correction(f"{pointer}/required", "required", meant)
        members = node.get("properties")
        if isinstance(members, dict):
            # A member can be added to a list of names, also to one that was removed.
            list_here = node if isinstance(node.get("required", []), list) else None
            inside = schemas_in(pointer, "properties", members)
            pending += [
                (p, child, list_here, n) for (p, child), n in zip(inside, members, strict=True)
            ]
        rest = {keyword: value for keyword, value in node.items() if keyword != "properties"}
        pending += [(p, child, None, "") for p, child in children(pointer, rest)]


def _read(keyword: str, value: Any, schema: dict[str, Any]) -> tuple[Any, str] | None:
    """What the value of a keyword of `schema` is read as, also for a person; None if it has no
    slip. A boolean `required` depends on its place."""
    if value is None and keyword in _NULL_IS_MISSING:
        # A missing map of the members that exist is one without members.
        return ({}, "{}") if keyword == "properties" else (None, MISSING)
    if value == [] and keyword in _EMPTY_MAPS:
        return {}, "{}"
    if keyword == "type" and value in ("const", "enum") and value in schema:
        return None, MISSING
    if keyword == "type" and (types := _types(value)) != value:
        return types, (types if isinstance(types, str) else ", ".join(types)) or MISSING
    if isinstance(value, str) and _NUMERIC.fullmatch(keyword) and _NUMBER.fullmatch(value):
        return json.loads(value), value
    return None


def _types(value: Any) -> Any:
    """Return the value of `type` with the names that JSON Schema has for the types; empty if it
    allows any. `string|null` and `string?` are lists."""
    if isinstance(value, str):
        names = [*value.removesuffix("?").split("|"), *["null"] * value.endswith("?")]
        if len(names) > 1:
            types = _types([name.strip() for name in names])
            return types if TYPE_NAMES.issuperset(types) else value
        name = value.lower()
        if _OTHER_TYPES.get(name) == "":
            return []
        meant = [each for each in TYPE_NAMES if each.startswith(_OTHER_TYPES.get(name, name))]
        return meant[0] if len(meant) == 1 and len(name) > 2 else value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        types = [*map(_types, value)]
        return [] if [] in types else [*dict.fromkeys(types)]
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
        if meant := spelled.get(text):
            return "#" + meant[0].replace("%", "%25") if len(meant) == 1 else None
    return None


def _spelled(schema: Any) -> dict[str, list[str]]:
    """Return the pointers of all schemas inside a schema, by what references to them may spell."""
    spelled: dict[str, list[str]] = {}
    for pointer, node in subschemas(schema):
        if pointer and isinstance(node, dict) and not {"$id", "id"}.isdisjoint(node):
            return {"": []}  # references inside it are relative to it
        text = _plain(pointer)
        for spelling in {text, text.rpartition(_DEFINITION)[2]}:
            spelled.setdefault(spelling, []).append(pointer)
    return spelled


def _plain(pointer: str) -> str:
    """Return a JSON Pointer without escapes, with one spelling of definitions."""
    text = unquote(pointer).replace("~1", "/").replace("~0", "~")
    return re.sub("/(definitions|components/schemas)/", _DEFINITION, text)
