"""`patternProperties` of few names as properties, so that all names of an object are known."""

from __future__ import annotations

from ...regular.reading import parse
from ...regular.syntax import (
    Alternatives,
    Anchor,
    Characters,
    Part,
    Repeated,
    Sequence,
    Unsupported,
)
from .document import Document
from .emptiness import Node

MAX_NAMES = 16


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
    """All strings that a pattern of whole strings matches, if these are few."""
    try:
        match parse(pattern):
            case Sequence((Anchor(end=False), *inside, Anchor(end=True))):
                names = _strings(Sequence(tuple(inside)))
                return [*dict.fromkeys(names)] if names else None
    except Unsupported:
        pass
    return None


def _strings(part: Part) -> list[str] | None:
    """The strings that a part matches as a whole; None if they are too many, or unknown."""
    found: list[str] | None = None
    match part:
        case Characters(ranges) if not part.properties:
            if sum(high - low + 1 for low, high in ranges) <= MAX_NAMES:
                found = [chr(each) for low, high in ranges for each in range(low, high + 1)]
        case Sequence(parts):
            found = _products([_strings(each) for each in parts])
        case Alternatives(options):
            inside = [_strings(each) for each in options]
            known = [text for each in inside if each is not None for text in each]
            found = known if None not in inside and len(known) <= MAX_NAMES else None
        case Repeated(one, 0, 1):
            once = _strings(one)
            found = None if once is None else ["", *once]
    return found


def _products(parts: list[list[str] | None]) -> list[str] | None:
    found = [""]
    for part in parts:
        if part is None or len(found) * len(part) > MAX_NAMES:
            return None
        found = [one + other for one in found for other in part]
    return found
