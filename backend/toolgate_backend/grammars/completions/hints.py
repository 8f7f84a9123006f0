"""What a schema says about short values, for the search for short completions.

Masks do not tell a required member from an optional one, or which characters lead to the end of a
pattern.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolgate_core.schema.walk import subschemas
from toolgate_core.wire import Hints

from .shortest_match import shortest_match

FORMATS = {
    "date": "2000-01-01",
    "time": "00:00:00Z",
    "date-time": "2000-01-01T00:00:00Z",
    "duration": "P1D",
    "email": "a@b.c",
    "hostname": "a",
    "ipv4": "1.1.1.1",
    "ipv6": "::1",
    "uri": "a:b",
    "uuid": "aaaaaaaa-aaaa-4aaa-aaaa-aaaaaaaaaaaa",
}
"""A short string of each format that masks enforce."""
MAX_NAMES = 256
MAX_FILLER = 256
"""Maximum number of characters by which a string is lengthened to its `minLength`."""
MAX_TEXTS = 96


def hints_of(parameters: dict[str, Any]) -> Hints:
    names: dict[str, None] = {}
    dependent: dict[str, None] = {}
    texts: dict[str, None] = {}
    for _, schema in subschemas(parameters):
        if isinstance(schema, dict):
            names |= dict.fromkeys(_names(schema.get("required")))
            dependent |= dict.fromkeys(_dependent(schema))
            texts |= dict.fromkeys(_texts(schema))
    return Hints(
        # An object that is open also accepts the names of those around it. Names that only others
        # require come last.
        names=tuple(dict.fromkeys([*reversed(names), *dependent]))[:MAX_NAMES],
        # A string of one member may be valid for another one. The shortest is tried first.
        texts=tuple(sorted([*texts][:MAX_TEXTS], key=len)),
    )


def _dependent(schema: dict[str, Any]) -> Iterator[str]:
    for keyword in ("dependentRequired", "dependencies"):
        if isinstance(schema.get(keyword), dict):
            for names in schema[keyword].values():
                yield from _names(names)


def _names(value: Any) -> Iterator[str]:
    return (
        (name for name in value if isinstance(name, str)) if isinstance(value, list) else iter(())
    )


def _texts(schema: dict[str, Any]) -> Iterator[str]:
    if (form := FORMATS.get(str(schema.get("format")))) is not None:
        yield form
    listed = [text for text in schema.get("enum", ()) if isinstance(text, str)]
    if listed:
        yield min(listed, key=len)
    pattern, text = schema.get("pattern"), ""
    if isinstance(pattern, str):
        if (found := shortest_match(pattern)) is None:
            return
        yield (text := found)
    missing = _count(schema.get("minLength")) - len(text)
    if 0 < missing <= MAX_FILLER:
        filler = text[-1:] or "a"
        yield text + filler * missing
        yield filler * missing + text


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else 0
