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
    "uuid": "00000000-0000-4000-8000-000000000000",
}
"""A short string of each format that masks enforce."""
MAX_NAMES = 256
MAX_TEXTS = 64


def hints_of(parameters: dict[str, Any]) -> Hints:
    names: dict[str, None] = {}
    texts: dict[str, None] = {}
    for _, schema in subschemas(parameters):
        if isinstance(schema, dict):
            names |= dict.fromkeys(_required(schema))
            texts |= dict.fromkeys(_texts(schema))
    # An object that is open also accepts the names of those around it.
    return Hints(names=tuple(reversed(names))[:MAX_NAMES], texts=tuple(texts)[:MAX_TEXTS])


def _required(schema: dict[str, Any]) -> Iterator[str]:
    lists = [schema.get("required")]
    for keyword in ("dependentRequired", "dependencies"):
        if isinstance(schema.get(keyword), dict):
            lists += schema[keyword].values()
    for each in lists:
        if isinstance(each, list):
            yield from (name for name in each if isinstance(name, str))


def _texts(schema: dict[str, Any]) -> Iterator[str]:
    if (form := FORMATS.get(str(schema.get("format")))) is not None:
        yield form
    pattern = schema.get("pattern")
    if not isinstance(pattern, str) or (text := shortest_match(pattern)) is None:
        return
    yield text
    missing = _count(schema.get("minLength")) - len(text)
    if 0 < missing <= MAX_NAMES:
        filler = text[-1:] or "a"
        yield text + filler * missing
        yield filler * missing + text


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else 0
