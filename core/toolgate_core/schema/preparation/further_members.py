"""The members of an object in engine form: those that have a name, and the others by their names.

Grammars of all forms of calls read them here, so that each enforces the same names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...pattern_match import matches
from ..regular.languages import Language, Matching, Union, texts

MAX_PATTERNS = 32
"""Maximum number of patterns of one object, each of which is compared with all others."""


@dataclass(frozen=True)
class FurtherMembers:
    """Members that an object does not declare."""

    schema: Any
    """Schema of their values."""
    declared: frozenset[str]
    """The names that they can't have."""
    pattern: str | None = None
    """A pattern of the names that they have; None if they have all others."""
    by_pattern: bool = False
    """Whether the schema has a pattern for these names. The others are left over."""


def declared_members(node: dict[str, Any]) -> dict[str, Any]:
    """The schemas of declared members, and of those that are only required, by name."""
    properties = node.get("properties", {})
    rest = node.get("additionalProperties", True)
    patterns = node.get("patternProperties", {})
    required = {
        name: next((each for pattern, each in patterns.items() if matches(pattern, name)), rest)
        for name in node.get("required", ())
        if name not in properties
    }
    return {**properties, **required}


def further_members(node: dict[str, Any]) -> list[FurtherMembers] | None:
    """The members that an object does not declare, without those that have no value or no name.
    None if the schema of a member is not that of its name, of one pattern or of the rest, or if
    there is no pattern of the names, or too many patterns."""
    given = node.get("patternProperties", {})
    rest = node.get("additionalProperties", True)
    declared = declared_members(node)
    if not given:
        return [] if rest is False else [FurtherMembers(rest, frozenset(declared))]
    if len(given) > MAX_PATTERNS:
        return None
    found: list[tuple[Any, Language, bool]] = []
    earlier: list[Language] = []
    for pattern, schema in given.items():
        named = [name for name in declared if matches(pattern, name)]
        own = [name for name in named if name in node.get("properties", {})]
        if schema is not True and any(declared[name] is not False for name in own):
            return None
        language = Matching(pattern)
        if any((language & each).is_empty is not True for each in earlier):
            return None
        earlier.append(language)
        found.append((schema, language & ~texts(named) if named else language, True))
    found.append((rest, ~Union((texts(declared), *earlier)), False))
    made = []
    for schema, names, by_pattern in found:
        if schema is False or names.is_empty:
            continue
        written = names.source if isinstance(names, Matching) else names.pattern
        if written is None:
            return None
        made.append(FurtherMembers(schema, frozenset(declared), written, by_pattern))
    return made
