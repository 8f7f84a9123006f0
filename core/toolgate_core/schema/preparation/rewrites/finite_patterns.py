"""`patternProperties` of few names as properties, so that all names of an object are known."""

from __future__ import annotations

import re

from .document import Document
from .emptiness import Node

MAX_NAMES = 16
_ONE_OF = re.compile(r"\^\[((?:\w(?:-\w)?)+)\]\$", re.ASCII)
_RANGE = re.compile(r"(\w)(?:-(\w))?", re.ASCII)
_LISTED = re.compile(r"\^\(?(?:\?:)?([\w-]+(?:\|[\w-]+)*)\)\$", re.ASCII)


def rewrite(document: Document, pointer: str, node: Node) -> None:
    patterns = node.get("patternProperties", {})
    for pattern in [*patterns]:
        names = names_of(pattern)
        if names is None:
            continue
        schema = patterns.pop(pattern)
        declared = node.setdefault("properties", {})
        for name in names:
            part = document.refer(schema)
            declared[name] = {"allOf": [declared[name], part]} if name in declared else part
    if "patternProperties" in node and not patterns:
        del node["patternProperties"]


def names_of(pattern: str) -> list[str] | None:
    """All strings that a pattern matches, if these are few and it says so plainly."""
    if listed := _LISTED.fullmatch(pattern):
        names = listed[1].split("|")
    elif characters := _ONE_OF.fullmatch(pattern):
        ranges = _RANGE.findall(characters[1])
        names = [chr(c) for low, high in ranges for c in range(ord(low), ord(high or low) + 1)]
    else:
        return None
    return [*dict.fromkeys(names)] if 0 < len(names) <= MAX_NAMES else None
