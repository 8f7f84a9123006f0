"""Whether all strings that a schema allows are free: any text, after which the same may follow.

Inside such a string the state of a grammar never changes, whatever is written, and after a value it
is the same for all values of the type. So the state after each text is known without an engine. The
proof is by a list of keywords that have no part in the text of a string, and for alternatives by
their types, of which one value has one only. In JSON, a string with a minimum of characters is free
from the place on at which it may end.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple

from toolgate_core.dialects.arguments.value_types import type_of
from toolgate_core.schema.keywords import ANNOTATIONS
from toolgate_core.schema.preparation.engine_form import BOUNDS
from toolgate_core.schema.walk import at_pointer, pointer_of_ref, subschemas, values

from .text_kinds import JSON_KINDS, TextKind

_BOUNDS = BOUNDS | {"multipleOf"}
_KEYWORDS = frozenset(
    {"type", "enum", "const", "anyOf", "$ref"}
    | {"properties", "required", "additionalProperties"}
    | {"items", "prefixItems", "minItems", "maxItems"}
    | _BOUNDS
)
_TYPES = frozenset({"string", "number", "boolean", "null", "object", "array"})
"""The types of JSON values. An integer is a number."""
_MAX_DEPTH = 64
MAX_NODES = 1_000
"""Maximum number of subschemas of a schema of which something is proven."""
_NUMBER_BEGINS = tuple("-+.0123456789")


class FreeTexts(NamedTuple):
    """What is proven about the values of a grammar."""

    strings: tuple[TextKind, ...] = ()
    """The kinds of strings, if all of them are free."""
    numbers: bool = False
    """Whether the numbers are free, too."""


NOT_FREE = FreeTexts()


def free_texts(
    schema: Any,
    kinds: tuple[TextKind, ...],
    *,
    with_names: bool = True,
    bare_names: bool = False,
) -> FreeTexts:
    """Return what is proven about the values of a grammar. `schema` is as the engine gets it, with
    closed objects. `kinds` are those of the strings. Without `with_names`, there must be no
    undeclared members: their names may be constrained. With `bare_names`, the names of members are
    written without quotation marks, so none may look like a number."""
    nodes = [node for _, node in islice(subschemas(schema), MAX_NODES + 1)] if kinds else []
    if not 0 < len(nodes) <= MAX_NODES:
        return NOT_FREE
    types = _Types(schema)
    keywords = _KEYWORDS | {"minLength"} if JSON_KINDS.issuperset(kinds) else _KEYWORDS
    if not all(_is_known(node, types, keywords) for node in nodes):
        return NOT_FREE
    if not with_names and not all(map(types.are_named, nodes)):
        return NOT_FREE
    if bare_names and any(map(_has_number_as_name, nodes)):
        return NOT_FREE
    return FreeTexts(kinds, all(map(_has_free_numbers, nodes)))


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


def _is_known(node: Any, types: _Types, keywords: frozenset[str]) -> bool:
    """Return whether a subschema, without those inside it, is one of those for which this is
    proven."""
    if not isinstance(node, dict):
        return node is True or node is False
    beside = node.keys() - ANNOTATIONS - {"$defs"}
    if beside - keywords:
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
