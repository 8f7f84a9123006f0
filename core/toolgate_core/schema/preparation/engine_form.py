"""A schema rewritten in the keywords that grammar engines support.

The canonical form of jsonschema-rs merges, distributes and negates. It can still have keywords that
no engine supports. Where other keywords are equivalent to them, they are replaced here. The others
stay unchanged, and `unsupported_keywords` finds them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice, permutations, product
from typing import Any

import jsonschema_rs

from ...errors import SchemaNotEnforceable
from ...pointer import escape
from ..canonical import canonical_json
from ..closed_objects import has_open_objects, with_open_objects
from ..keywords import ASSERTIONS, BUILT_IN, CHECKED, DEFINITIONS, LENGTHS, PATTERNS
from ..patterns import for_engines, is_maskable, matches_nothing
from ..types import ALL, own_types, type_of
from ..walk import (
    at_pointer,
    deep_copy,
    find_references,
    move_targets_to_defs,
    pointer_of_ref,
    reachable,
    subschemas,
)
from .checks import unsatisfiable_part

KNOWN_FORMATS = BUILT_IN | CHECKED | PATTERNS.keys()


_LAST = frozenset({"$ref", "allOf", "anyOf", "const", "enum"})
"""Keywords that must be last. llguidance reads keywords in order and stops at these. It merges the
keywords before and after one of them like two schemas, which changes `additionalProperties`."""


class PropertyOrder:
    """The order in which a schema declares its properties. Engines write members in that order, and
    the canonical form loses it."""

    def __init__(self, schema: Any) -> None:
        self._lists: list[list[str]] = []
        self._listed: dict[str, list[int]] = {}
        for _, node in reachable(schema):
            if isinstance(node.get("properties"), dict):
                self._lists.append(list(node["properties"]))
                for name in self._lists[-1]:
                    self._listed.setdefault(name, []).append(len(self._lists) - 1)

    def sort(self, properties: dict[str, Any]) -> dict[str, Any]:
        """Return the properties in the order of the declaration that shares most names with them,
        then of the other declarations."""
        common = Counter(at for name in properties for at in self._listed.get(name, ()))
        names = [name for at, _ in common.most_common() for name in self._lists[at]]
        known = [name for name in dict.fromkeys(names) if name in properties]
        return {name: properties[name] for name in dict.fromkeys([*known, *properties])}


def to_engine_form(schema: Any, order: PropertyOrder) -> Any:
    """Return a copy of a normalised or canonical schema, with its properties in `order`. It is
    equivalent, except that formats are narrowed to their patterns."""
    schema = deep_copy(schema)
    move_targets_to_defs(schema, find_references(schema))
    for _, node in [*subschemas(schema)]:
        if isinstance(node, dict):
            for keyword in [k for k in node if k not in ASSERTIONS and k not in DEFINITIONS]:
                del node[keyword]
            _property_names(node)
            _format(node)
            _patterns(node)
            _arrays(node, schema)
            if isinstance(node.get("properties"), dict):
                node["properties"] = order.sort(node["properties"])
            for keyword in _LAST & node.keys():
                node[keyword] = node.pop(keyword)
    return schema


def engine_form(schema: Any, order: PropertyOrder, *, whole: bool) -> Any:
    """Return the schema in the form that the engines support; None if they do not support all of
    it. Raise SchemaNotEnforceable if this is the `whole` schema and certainly no value satisfies
    it."""
    is_plain, is_small = traits(schema)
    if not is_plain and is_small:
        form = canonical_engine_form(schema, order, whole=whole)
        if form is not None:
            return form
    return _supported_form(schema, order)


def canonical_engine_form(schema: Any, order: PropertyOrder, *, whole: bool) -> Any:
    """Return the canonical form of a small schema as `engine_form` does."""
    try:
        canonical = jsonschema_rs.canonicalize(schema, validate_formats=True, offline=True)
    except (ValueError, jsonschema_rs.ReferencingError, jsonschema_rs.ValidationError):
        return None
    if whole and canonical.satisfiability() == jsonschema_rs.canonical.Satisfiability.NO:
        pointer = unsatisfiable_part(schema) or ""
        raise SchemaNotEnforceable("No value satisfies the schema.", pointer=pointer)
    form = canonical.to_json_schema()
    return _supported_form(with_open_objects(form) if has_open_objects(schema) else form, order)


def _supported_form(schema: Any, order: PropertyOrder) -> Any:
    form = to_engine_form(schema, order)
    return None if any(unsupported_keywords(form)) else form


def traits(schema: Any) -> tuple[bool, bool]:
    """Return whether a schema is plain (the engines support all its keywords, in every
    combination), and whether it is small enough for the canonical form."""
    nodes = [node.keys() & ASSERTIONS for _, node in reachable(schema)]
    is_plain = not any(
        keywords - _PLAIN or (keywords & _COMBINING and len(keywords) > 1) for keywords in nodes
    )
    return is_plain, len(nodes) <= MAX_SUBSCHEMAS


def _format(node: dict[str, Any]) -> None:
    name = node.get("format")
    if name not in KNOWN_FORMATS:
        node.pop("format", None)
    if name in PATTERNS:
        del node["format"]
        _match(node, PATTERNS[name])
    if name in LENGTHS:
        node["maxLength"] = min(node.get("maxLength", LENGTHS[name]), LENGTHS[name])


def _match(node: dict[str, Any], patterns: Iterable[str]) -> None:
    """Require strings to match these patterns too."""
    for pattern in patterns:
        if "pattern" not in node:
            node["pattern"] = pattern
        else:
            node["allOf"] = [*node.get("allOf", ()), {"pattern": pattern}]


def _patterns(node: dict[str, Any]) -> None:
    if "pattern" in node:
        node["pattern"], *others = for_engines(node["pattern"])
        _match(node, others)
    if "patternProperties" in node:
        members = {for_engines(p): schema for p, schema in node["patternProperties"].items()}
        if len(members) == len(node["patternProperties"]) and all(len(p) == 1 for p in members):
            node["patternProperties"] = {p[0]: schema for p, schema in members.items()}


MAX_ARRAYS, MAX_LENGTH = 512, 32
"""Maximum number and length of the arrays that are listed."""
_COUNTED = {"contains", "maxContains", "minContains", "uniqueItems"}
_LISTED = {"type", "items", "minItems", "maxItems", *_COUNTED}


def _arrays(node: dict[str, Any], schema: Any) -> None:
    """List the arrays that `uniqueItems` and `contains` allow, if there are few."""
    items, is_set = node.get("items"), node.get("uniqueItems") is True
    if isinstance(items, dict) and (pointer := pointer_of_ref(items.get("$ref"))) is not None:
        items = at_pointer(schema, pointer)
    if node.get("type") != "array" or not (is_set or "contains" in node):
        return
    if node.keys() - _LISTED - {*DEFINITIONS} or not isinstance(items, dict):
        return
    if "enum" not in items or items.keys() - {"type", "enum"}:
        return
    types = own_types({"type": items.get("type", [*ALL])})
    values = {canonical_json(v): v for v in items["enum"] if type_of(v) in types}.values()
    most = min(node.get("maxItems", MAX_LENGTH + 1), len(values) if is_set else MAX_LENGTH + 1)
    counts = range(node.get("minItems", 0), most + 1)
    arrays = (permutations(values, n) if is_set else product(values, repeat=n) for n in counts)
    listed = [[*each] for each in islice(chain.from_iterable(arrays), MAX_ARRAYS + 1)]
    if len(listed) <= MAX_ARRAYS and most <= MAX_LENGTH:
        rules = {"$defs": schema.get("$defs", {})} | {k: node[k] for k in _COUNTED & node.keys()}
        node["enum"] = [*filter(jsonschema_rs.validator_for(rules).is_valid, listed)]
        for keyword in _LISTED - {"type"}:
            node.pop(keyword, None)


def _property_names(node: dict[str, Any]) -> None:
    """Declare the members that `propertyNames` allows, if it lists them, or if it is one pattern
    and no member is declared."""
    names = node.get("propertyNames")
    if names is True or names == {}:
        del node["propertyNames"]
    if not isinstance(names, dict) or names == {} or "patternProperties" in node:
        return
    rest = node.get("additionalProperties", True)
    declared = node.get("properties", {})
    listed = names.get("enum", [names["const"]] if "const" in names else None)
    if listed is not None and not names.keys() - {"enum", "const", "type"}:
        allowed = {name: declared.get(name, rest) for name in listed if isinstance(name, str)}
        node["properties"] = allowed
    elif names.keys() <= {"pattern", "type"} and "pattern" in names and not declared:
        node["patternProperties"] = {names["pattern"]: rest}
    else:
        return
    node["additionalProperties"] = False
    del node["propertyNames"]


# --- what the engines enforce ---

SUPPORTED = frozenset(
    {
        *("$ref", "additionalProperties", "allOf", "anyOf", "const", "enum"),
        *("exclusiveMaximum", "exclusiveMinimum", "format", "items", "maxItems", "maxLength"),
        *("maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum"),
        *("multipleOf", "pattern", "patternProperties", "prefixItems", "properties"),
        *("required", "type"),
    }
)
"""Keywords that llguidance 1.7.6 enforces (parser/src/json/schema.rs), some only with certain
values or in certain combinations. xgrammar enforces fewer (see grammars/engines/choice.py in the
backend)."""

_PLAIN = SUPPORTED - {"allOf"}
_COMBINING = frozenset({"$ref", "anyOf"})
MAX_SUBSCHEMAS = 3_000
"""Maximum number of subschemas for the canonical form, which can take exponential time."""
BOUNDS = frozenset({"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"})
NUMERIC = BOUNDS | {"const", "enum", "multipleOf"}
EXACT = 2**53
"""Largest integer that is always exact in double precision, in which llguidance reads numbers. The
engines' own rules for larger integers are exact."""


def unsupported_keywords(schema: Any) -> Iterator[tuple[str, str]]:
    """Yield the JSON Pointer and the name of each unsupported keyword."""
    for pointer, node in reachable(schema):
        for keyword in node:
            if not _is_supported(node, keyword):
                yield f"{pointer}/{escape(keyword)}", keyword


def _is_supported(node: dict[str, Any], keyword: str) -> bool:
    value = node[keyword]
    if keyword == "$defs":
        return True
    if keyword not in SUPPORTED:
        return False
    if keyword == "$ref":
        return pointer_of_ref(value) is not None
    if keyword == "format":
        return value in BUILT_IN
    if keyword == "pattern":
        return is_maskable(value)
    if keyword == "patternProperties":
        return all(map(is_maskable, value)) and has_readable_names(node)
    if keyword == "minProperties" and value > 1:  # undeclared names may come twice
        is_open = node.get("additionalProperties", not node.get("properties")) is not False
        return not is_open and "patternProperties" not in node
    if keyword == "multipleOf" and not _never_negative(node):
        return False
    if keyword in BOUNDS and (node.get("type") != "integer" or "multipleOf" in node):
        return is_exact(value)
    return keyword not in NUMERIC or is_exact(value, integers=keyword != "multipleOf")


def has_large_numbers(node: Any) -> bool:
    """Whether a subschema, without those inside it, has numbers beyond double precision."""
    return isinstance(node, dict) and not all(is_exact(node[k]) for k in NUMERIC & node.keys())


def has_readable_names(node: dict[str, Any]) -> bool:
    """Whether a pattern of names is all that an object says of its members. A grammar that allows a
    member without a name for it would have a state without an end."""
    patterns = node["patternProperties"]
    if node.get("additionalProperties") is not False or node.get("properties"):
        return False
    if node.get("required") or len(patterns) != 1:
        return False
    return not any(map(matches_nothing, patterns))


def _never_negative(node: dict[str, Any]) -> bool:
    """Return whether the schema excludes negative numbers. llguidance excludes them next to
    `multipleOf`, so masks would exclude valid values of other schemas."""
    return any(node.get(bound, -1) >= 0 for bound in ("minimum", "exclusiveMinimum"))


def is_exact(value: Any, most: int = EXACT, *, integers: bool = False) -> bool:
    """Return whether double precision represents every number in a value exactly, because none
    exceeds `most`. `integers`: those may have any size."""
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, int) and integers:
            continue
        elif isinstance(value, int | float) and abs(value) > most:
            return False
    return True
