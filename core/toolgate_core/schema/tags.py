"""Tags: the members that tell the objects of a union apart are required.

pydantic leaves a tag with a default out of `required`, and refuses objects without it. OpenAPI
requires the member that `discriminator` names. To require a member only forbids values, except
inside a negation and in a `oneOf` whose alternatives may overlap: with one of these, none is.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from .keywords import ASSERTIONS
from .types import ALL, own_types
from .walk import at_pointer, pointer_of_ref, reachable

MAX_VISITS = 20_000
"""Maximum number of alternatives that are read. With more, nothing is changed."""
_UNIONS = ("anyOf", "oneOf")
_OPAQUE = {"contains", "if", "not"}
"""Keywords that may allow more values if fewer satisfy what is in them."""
Schema = dict[str, Any]


class _Union(NamedTuple):
    node: Schema
    keyword: str
    leaves: list[Schema]
    """Its alternatives, and instead of unions, those of them."""
    tag: str | None
    is_apart: bool
    """Whether no value satisfies two alternatives, once they require the tag."""


def require_tags(schema: Any) -> None:
    """Require the tags of a normalised schema, in place. A `oneOf` whose alternatives they tell
    apart becomes an `anyOf`, which is then equivalent."""
    with suppress(AttributeError, LookupError, TypeError, ValueError):  # no schema: reported later
        nodes = [node for _, node in reachable(schema)]
        if not any("$dynamicRef" in node for node in nodes):
            _UnionTags(schema).require_tags(nodes)


class _UnionTags:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._visits = 0

    def require_tags(self, nodes: Collection[Schema]) -> None:
        unions = [self._union(node, k) for node in nodes for k in _UNIONS if k in node]
        overlaps = any(not each.is_apart for each in unions if each.keyword == "oneOf")
        is_fixed = overlaps or any(_OPAQUE & node.keys() for node in nodes)
        for node, keyword, leaves, tag, is_apart in unions:
            tagged = [leaf for leaf in leaves if leaf.get("properties", {}).get(tag)]
            lacking = [leaf for leaf in tagged if tag not in leaf.get("required", ())]
            if tag is None or (is_fixed and lacking):
                continue
            for leaf in lacking:
                leaf["required"] = [*leaf.get("required", ()), tag]
            if keyword == "oneOf" and is_apart and "anyOf" not in node:
                node["anyOf"] = node.pop("oneOf")

    def _union(self, node: Schema, keyword: str) -> _Union:
        arms = [[*self._leaves(arm)] for arm in node[keyword]]
        leaves = [leaf for arm in arms for leaf in arm if isinstance(leaf, dict)]
        named = (node.get("discriminator") or {}).get("propertyName")
        consts = (
            name
            for leaf in leaves
            for name, member in leaf.get("properties", {}).items()
            if isinstance(member, dict) and "const" in member
        )
        names = [named] if named else [None, *dict.fromkeys(consts)]
        apart = [*islice((each for each in names if self._are_apart(arms, each)), 1)]
        return _Union(node, keyword, leaves, (apart or [named])[0], bool(apart))

    def _leaves(self, schema: Any) -> Iterator[Any]:
        pending, seen = [schema], set[int]()
        while pending:
            leaf = self._followed(pending.pop())
            keywords = {*leaf} & ASSERTIONS if isinstance(leaf, dict) else set()
            if len(keywords) != 1 or keywords.isdisjoint(_UNIONS):
                yield leaf
            elif id(leaf) not in seen:
                seen.add(id(leaf))
                pending += leaf[keywords.pop()]

    def _followed(self, schema: Any) -> Any:
        """Return the target of a schema that is only a reference."""
        while True:
            self._visits += 1
            if self._visits > MAX_VISITS:
                raise ValueError
            if not isinstance(schema, dict) or {*schema} & ASSERTIONS != {"$ref"}:
                return schema
            schema = at_pointer(self._root, pointer_of_ref(schema["$ref"]) or "")

    def _are_apart(self, arms: Iterable[Iterable[Any]], tag: str | None) -> bool:
        """Return whether the types of values, and the tag of objects, tell the alternatives
        apart."""
        seen = set[str]()
        for arm in arms:
            signs = {sign for leaf in arm if leaf is not False for sign in self._signs(leaf, tag)}
            if not seen.isdisjoint(signs):
                return False
            seen |= signs
        return tag is None or "object" not in seen

    def _signs(self, leaf: Any, tag: str | None) -> Iterable[str]:
        """Return the types of an alternative, or the values of the tag of its objects, as JSON."""
        types = own_types(leaf) if isinstance(leaf, dict) else ALL
        if types != {"object"}:
            return types
        member = self._followed(leaf.get("properties", {}).get(tag))
        member = member if isinstance(member, dict) else {}
        values = [member["const"]] if "const" in member else member.get("enum", ())
        is_known = values and all(isinstance(each, str | int | None) for each in values)
        return map(json.dumps, values) if is_known else types
