"""What a schema says about short values, for the search for short completions.

Masks do not tell a required member from an optional one, or which characters lead to the end of a
pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from toolgate_core.schema.pattern_samples import sample_of
from toolgate_core.schema.regular.languages import Long, Matching
from toolgate_core.schema.regular.shortest import shortest_of
from toolgate_core.schema.regular.syntax import Unsupported
from toolgate_core.schema.walk import subschemas
from toolgate_core.wire import Hints

from .detours import NOT_USED, Detour, detours

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
MAX_LENGTH = 512
"""Maximum length of a string, in characters."""
MAX_SEARCHED = 32
"""Maximum number of patterns whose shortest text is searched for. Others have a short one."""
MAX_STEPS = 300
"""Maximum number of texts that are looked at for one pattern."""
MAX_TEXTS = 96
MAX_LISTED = 16
"""Maximum number of values of an `enum` whose tokens are counted: the shortest ones."""

_Needed = tuple[str, int]
"""A pattern and a `minLength`."""


def hints_of(parameters: dict[str, Any], cost: Callable[[str], int] = len) -> list[Hints]:
    """The different hints that may lead to the shortest completion. `cost` of a text: the number
    of its tokens.

    What belongs to the shortest alternatives comes first. Something that also occurs outside of
    alternatives comes first, or it has its rank among these."""
    through = detours(parameters)
    names: dict[str, list[Detour]] = {}
    texts: dict[str, list[Detour]] = {}
    dependent: dict[str, None] = {}
    searched: dict[_Needed, str | None] = {}
    for _, schema in subschemas(parameters):
        if isinstance(schema, dict):
            detour = through.get(id(schema), NOT_USED)
            for name in _names(schema.get("required")):
                names.setdefault(name, []).append(detour)
            for text in _texts(schema, cost, searched):
                texts.setdefault(text, []).append(detour)
            dependent |= dict.fromkeys(_dependent(schema))
    found = [_hints(names, texts, dependent, cost, rank) for rank in (_shortest, _shortest_chosen)]
    return [*dict.fromkeys(found)]


def _hints(
    names: dict[str, list[Detour]],
    texts: dict[str, list[Detour]],
    dependent: Iterable[str],
    cost: Callable[[str], int],
    rank: Callable[[list[Detour]], int],
) -> Hints:
    # An object that is open also accepts the names of those around it. Names that only others
    # require come last.
    inner_first = [*reversed(names)]
    required = sorted(inner_first, key=lambda name: rank(names[name]))
    kept = sorted(texts, key=lambda text: rank(texts[text]))[:MAX_TEXTS]
    return Hints(
        names=tuple(dict.fromkeys([*required, *dependent]))[:MAX_NAMES],
        # A string of one member may be valid for another one.
        texts=tuple(sorted(kept, key=lambda text: (rank(texts[text]), cost(text)))),
    )


def _shortest(found: list[Detour]) -> int:
    return min(found).length


def _shortest_chosen(found: list[Detour]) -> int:
    return min([each for each in found if each.chosen] or found).length


def _dependent(schema: dict[str, Any]) -> Iterator[str]:
    for keyword in ("dependentRequired", "dependencies"):
        if isinstance(schema.get(keyword), dict):
            for names in schema[keyword].values():
                yield from _names(names)


def _names(value: Any) -> Iterator[str]:
    return (
        (name for name in value if isinstance(name, str)) if isinstance(value, list) else iter(())
    )


def _texts(
    schema: dict[str, Any], cost: Callable[[str], int], searched: dict[_Needed, str | None]
) -> Iterator[str]:
    if (form := FORMATS.get(str(schema.get("format")))) is not None:
        yield form
    values = [schema["const"]] if "const" in schema else schema.get("enum", ())
    listed = sorted((text for text in values if isinstance(text, str)), key=len)
    if listed:
        yield min(listed[:MAX_LISTED], key=cost)
    pattern, least = schema.get("pattern"), _count(schema.get("minLength"))
    if least > MAX_LENGTH:
        return
    if isinstance(pattern, str):
        if (pattern, least) not in searched and len(searched) < MAX_SEARCHED:
            searched[pattern, least] = _shortest_match(pattern, least)
        text = searched.get((pattern, least)) or sample_of(pattern)
        if text is not None and len(text) <= MAX_LENGTH:
            yield text
    elif least > 0:
        yield "a" * least


def _shortest_match(pattern: str, least: int) -> str | None:
    """The shortest text of at least this length that a pattern matches; None if it is not found."""
    try:
        return shortest_of(Matching(pattern) & Long(least), MAX_STEPS)
    except (Unsupported, RecursionError):
        return None


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else 0
