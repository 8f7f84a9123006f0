"""Whether all strings that a schema allows are known: free, or of known languages.

After a value, the state of a grammar is the same for all values of the type. Inside a string it
depends only on what the text leaves of the string's language, and inside a free one it never
changes. So the state after each text is known without an engine. The proof is by a list of keywords
that have no part in the text of a string, and for alternatives by their types, of which one value
has one only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from .keywords import ANNOTATIONS
from .preparation.engine_form import BOUNDS
from .regular.parts import Unsupported
from .string_languages import FREE, Constraint, constraints_of
from .types import TypeReader, type_of
from .walk import subschemas, values

_BOUNDS = BOUNDS | {"multipleOf"}
_KEYWORDS = frozenset(
    {"type", "enum", "const", "anyOf", "$ref"}
    | {"properties", "required", "additionalProperties"}
    | {"items", "prefixItems", "minItems", "maxItems"}
    | {"pattern", "format", "minLength", "maxLength", "allOf"}
    | _BOUNDS
)
MAX_CONSTRAINTS = 16
"""Maximum number of different demands on strings. No tool of 722 has more than eleven."""
MAX_NODES = 1_000
"""Maximum number of subschemas of a schema of which something is proven."""
_PART = re.compile(r"/allOf/\d+$")
"""Patterns of which a string matches all (`_is_known`)."""
_NUMBER_BEGINS = tuple("-+.0123456789")


class KnownTexts(NamedTuple):
    """What is proven about the values that a schema allows."""

    constraints: tuple[Constraint, ...] = (FREE,)
    """Each string has one of these, except those that are listed."""
    listed: frozenset[str] = frozenset()
    """The strings that schemas list, and the names of members."""
    numbers: bool = False
    """Whether all numbers are free."""


def known_texts(
    schema: Any, counted: int | None, *, with_names: bool = True, bare_names: bool = False
) -> KnownTexts | None:
    """Return what is proven about the values of a grammar; None if not all its strings are known.
    `schema` is as the engine gets it, with closed objects; `counted` as for `constraints_of`.
    Without `with_names`, there must be no undeclared members: their names may be constrained. With
    `bare_names`, the names of members are written without quotation marks, so none may look like a
    number."""
    pairs = [*islice(subschemas(schema), MAX_NODES + 1)]
    nodes = [node for pointer, node in pairs if not _PART.search(pointer)]
    types = TypeReader(schema)
    known = [node for node in nodes if isinstance(node, dict)]
    try:
        if not (
            0 < len(pairs) <= MAX_NODES
            and all(_is_known(node, types) for node in nodes)
            and (with_names or all(_is_named(node, types) for node in nodes))
            and not (bare_names and any(map(_has_number_as_name, nodes)))
        ):
            return None
        constraints = [each for node in known for each in constraints_of(node, counted)]
    except (LookupError, Unsupported, RecursionError):
        return None
    different = tuple(dict.fromkeys((FREE, *constraints)))
    if len(different) > MAX_CONSTRAINTS:
        return None
    return KnownTexts(
        different,
        frozenset(text for node in known for text in _listed(node)),
        all(map(_has_free_numbers, nodes)),
    )


def _listed(node: dict[str, Any]) -> Iterator[str]:
    yield from node.get("properties", ())
    for value in (*node.get("enum", ()), node.get("const")):
        for _, each in values(value):
            yield from [each] if isinstance(each, str) else each if isinstance(each, dict) else ()


def _has_free_numbers(node: Any) -> bool:
    if not isinstance(node, dict):
        return True
    listed = {key: node[key] for key in ("enum", "const") if key in node}
    return not node.keys() & _BOUNDS and not any(
        type_of(each) in ("integer", "number") for _, each in values(listed)
    )


def _has_number_as_name(node: Any) -> bool:
    names = node.get("properties", ()) if isinstance(node, dict) else ()
    return any(name.startswith(_NUMBER_BEGINS) for name in names)


def _is_known(node: Any, types: TypeReader) -> bool:
    """Return whether a subschema, without those inside it, is one of those for which this is
    proven."""
    if not isinstance(node, dict):
        return node is True or node is False
    beside = node.keys() - ANNOTATIONS - {"$defs"}
    if beside - _KEYWORDS or any([*each] != ["pattern"] for each in node.get("allOf", ())):
        return False
    if beside & {"anyOf", "$ref"} and len(beside) > 1:
        return False
    return _has_known_names(node) and _are_different(node.get("anyOf", ()), types)


def _has_known_names(node: dict[str, Any]) -> bool:
    """Return whether an object has either declared members or any members. If others may be beside
    declared ones, their names may be any text but some."""
    declared = bool(node.get("properties")) or bool(node.get("required"))
    return not declared or node.get("additionalProperties") is False


def _is_named(node: Any, types: TypeReader) -> bool:
    """Return whether an object of a schema has no undeclared members."""
    if "object" not in types.value(node):
        return True
    return isinstance(node, dict) and (
        bool(node.keys() & {"anyOf", "$ref", "enum", "const"})
        or node.get("additionalProperties") is False
    )


def _are_different(options: Iterable[Any], types: TypeReader) -> bool:
    """Return whether a value's type tells to which of the alternatives it belongs. An integer is a
    number."""
    kinds = [
        {"number" if kind == "integer" else kind for kind in types.value(each)} for each in options
    ]
    return sum(map(len, kinds)) == len(set[str]().union(*kinds))
