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
from .walk import at_pointer, pointer_of_ref, subschemas, type_of, values

_BOUNDS = BOUNDS | {"multipleOf"}
_KEYWORDS = frozenset(
    {"type", "enum", "const", "anyOf", "$ref"}
    | {"properties", "required", "additionalProperties"}
    | {"items", "prefixItems", "minItems", "maxItems"}
    | {"pattern", "format", "minLength", "maxLength", "allOf"}
    | _BOUNDS
)
_TYPES = frozenset({"string", "number", "boolean", "null", "object", "array"})
"""The types of JSON values. An integer is a number."""
_MAX_DEPTH = 64
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
    found = [*islice(subschemas(schema), MAX_NODES + 1)]
    nodes = [node for pointer, node in found if not _PART.search(pointer)]
    types = _Types(schema)
    if not (
        0 < len(found) <= MAX_NODES
        and all(_is_known(node, types) for node in nodes)
        and (with_names or all(map(types.are_named, nodes)))
        and not (bare_names and any(map(_has_number_as_name, nodes)))
    ):
        return None
    known = [node for node in nodes if isinstance(node, dict)]
    try:
        constraints = [each for node in known for each in constraints_of(node, counted)]
    except (Unsupported, RecursionError):
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


def _is_known(node: Any, types: _Types) -> bool:
    """Return whether a subschema, without those inside it, is one of those for which this is
    proven."""
    if not isinstance(node, dict):
        return node is True or node is False
    beside = node.keys() - ANNOTATIONS - {"$defs"}
    if beside - _KEYWORDS or any([*each] != ["pattern"] for each in node.get("allOf", ())):
        return False
    if beside & {"anyOf", "$ref"} and len(beside) > 1:
        return False
    return _has_known_names(node) and types.are_different(node.get("anyOf", ()))


def _has_known_names(node: dict[str, Any]) -> bool:
    """Return whether an object has either declared members or any members. If others may be beside
    declared ones, their names may be any text but some."""
    declared = bool(node.get("properties")) or bool(node.get("required"))
    return not declared or node.get("additionalProperties") is False


class _Types:
    """The types of the values that a schema allows, or more. Each subschema is visited once."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._known: dict[int, frozenset[str]] = {}

    def are_named(self, node: Any) -> bool:
        """Return whether an object of a schema has no undeclared members."""
        if "object" not in self._of(node, _MAX_DEPTH):
            return True
        return isinstance(node, dict) and (
            bool(node.keys() & {"anyOf", "$ref", "enum", "const"})
            or node.get("additionalProperties") is False
        )

    def are_different(self, options: Iterable[Any]) -> bool:
        """Return whether a value's type tells to which of the alternatives it belongs."""
        seen: set[str] = set()
        for each in options:
            found = self._of(each, _MAX_DEPTH)
            if seen & found:
                return False
            seen |= found
        return True

    def _of(self, node: Any, depth: int) -> frozenset[str]:
        if not isinstance(node, dict) or depth == 0:
            return _TYPES
        if id(node) not in self._known:
            self._known[id(node)] = _TYPES  # for a schema inside itself
            self._known[id(node)] = self._found(node, depth - 1)
        return self._known[id(node)]

    def _found(self, node: dict[str, Any], depth: int) -> frozenset[str]:
        if "$ref" in node:
            pointer = pointer_of_ref(node["$ref"])
            try:
                return (
                    _TYPES if pointer is None else self._of(at_pointer(self._root, pointer), depth)
                )
            except LookupError:
                return _TYPES
        if "anyOf" in node:
            return frozenset().union(*(self._of(each, depth) for each in node["anyOf"]))
        if "enum" in node or "const" in node:
            named = [*map(type_of, node.get("enum", [node.get("const")]))]
        else:
            kinds = node.get("type", [*_TYPES])
            named = [kinds] if isinstance(kinds, str) else kinds
        return frozenset("number" if each == "integer" else each for each in named)
