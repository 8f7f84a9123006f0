"""Sample names of members of objects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any

from ....pattern_match import matches
from ...pattern_samples import sample_of
from ..rewrites.document import Document
from ..rewrites.emptiness import Node

MAX_PATTERNS = 24
MAX_SAMPLES = 400
PADDING = "wxyz"
CHOICES = 6

_IN_PLACE = re.compile(r"(?:/(?:allOf|anyOf|oneOf)/\d+|/(?:else|if|not|propertyNames|then))+$")
"""The end of the pointer of a schema that is about the same value as an outer one, or its names."""
_INSIDE = ("allOf", "anyOf", "else", "if", "not", "oneOf", "propertyNames", "then")


def names_in(document: Document, pointer: str, node: Node, each: int) -> list[str]:
    """Names of members that the schemas of the object at a node tell apart: for each set of the
    document's patterns that a name can match, at most `each` names."""
    names: dict[str, None] = {}
    patterns = _patterns(document)
    around = document.node_at(_IN_PLACE.sub("", pointer)) or node
    for part in [*parts_of(document, around), *parts_of(document, node)]:
        names |= dict.fromkeys(part.get("properties", ()))
        names |= dict.fromkeys(part.get("required", ()))
        names |= dict.fromkeys(part.get("dependentRequired", ()))
        names |= dict.fromkeys(part.get("dependentSchemas", ()))
        listed = part.get("enum", [part.get("const")])
        names |= dict.fromkeys(value for value in listed if isinstance(value, str))
    known = [*patterns][:MAX_PATTERNS]
    found: dict[tuple[bool, ...], list[str]] = {}
    for name in [*names, *_variants(known)]:
        same = found.setdefault(tuple(matches(pattern, name) for pattern in known), [])
        if name in names or len(same) < each:
            same.append(name)
    return [*dict.fromkeys(name for same in found.values() for name in same)]


def _patterns(document: Document) -> dict[str, None]:
    """The patterns of names in a document."""
    found: dict[str, None] = {}
    for _, node in document.places():
        found |= dict.fromkeys(node.get("patternProperties", ()))
        names = node.get("propertyNames", True)
        found |= {part["pattern"]: None for part in parts_of(document, names) if "pattern" in part}
    return found


def _variants(patterns: list[str]) -> Iterable[str]:
    """Strings of single patterns and of several at once, longer ones, and strings of none."""
    found = [[sample_of(pattern, choice) for pattern in patterns] for choice in range(CHOICES)]
    samples = [text for text in found[0] if text is not None] if found else []
    every = {text: None for some in found for text in some if text is not None}
    for count in (2, 3, len(samples)):
        for some in combinations(samples, count):
            every["".join(some)] = None
            if len(every) > MAX_SAMPLES:
                break
    for one in samples:
        for other in samples:
            if len(one) < len(other):
                every |= {one + other[len(one) :]: None, other[: -len(one)] + one: None}
    short = [*every, "a", "b", "c", "d", "name"]
    return dict.fromkeys(
        [
            *short,
            *(f"{text}{mark}" for text in short for mark in (PADDING, *"1234")),
            *(f"{mark}{text}" for text in short for mark in (PADDING, *"pqrs")),
        ]
    )


def parts_of(document: Document, node: Any) -> Iterator[Node]:
    """A node, and the schemas inside it and behind references, of the same value or its names."""
    pending, seen = [node], set[int]()
    while pending:
        part = pending.pop()
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        if "$ref" in part:
            pending.append(document.target(part))
        pending.extend(part.get("dependentSchemas", {}).values())
        for keyword in _INSIDE:
            inside = part.get(keyword, [])
            pending.extend(inside if isinstance(inside, list) else [inside])
