"""Integers of any size in llguidance's Lark, because `%json` reads numbers in double precision."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolgate_core.schema.preparation.engine_form import has_large_numbers
from toolgate_core.schema.walk import subschemas

from ...errors import GrammarRefused

MAX_DIGITS = 128
"""Maximum number of digits of the bounds of a range."""


_NEAR_BOUNDS = {"minimum": 0, "maximum": 0, "exclusiveMinimum": 1, "exclusiveMaximum": -1}


def near_bounds(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values nearest to the bounds of a schema that it may allow, by their keywords."""
    return {key: schema[key] + more for key, more in _NEAR_BOUNDS.items() if key in schema}


def exact_numbers(schema: Any, options: Mapping[str, Any]) -> str | None:
    """Return the values of a schema of large integers in Lark; None if `%json` reads the schema
    exactly. Raise GrammarRefused for large integers inside it, or beside other keywords."""
    if not any(has_large_numbers(node) for _, node in subschemas(schema)):
        return None
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if values is not None and schema.keys() <= {"enum", "const", "type"}:
        separators = (options.get("item_separator", ", "), options.get("key_separator", ": "))
        texts = (json.dumps(v, ensure_ascii=False, separators=separators) for v in values)
        return " | ".join(map(json.dumps, texts))
    found = near_bounds(schema)
    low = max((found[key] for key in found if "inimum" in key), default=None)
    high = min((found[key] for key in found if "aximum" in key), default=None)
    if schema.keys() - _NEAR_BOUNDS.keys() != {"type"} or len(f"{low}{high}") > MAX_DIGITS:
        raise GrammarRefused("integers beyond 2^53 inside other values", "")
    return f"/{integers(low, high)}/"


def integers(low: int | None, high: int | None) -> str:
    """Return a regular expression of the integers of a range, as JSON writes them."""
    ways = []
    if low is None or low < 0:
        ways.append(
            f"-{_positive(1 if high is None else max(1, -high), None if low is None else -low)}"
        )
    if high is None or high >= 0:
        ways.append(_positive(max(0, low or 0), high))
    return "|".join(ways) if ways else "[^\\s\\S]"


def _positive(low: int, high: int | None) -> str:
    """Return the numbers of a range without a sign, by their numbers of digits."""
    first = len(str(low))
    last = first if high is None else len(str(high))
    ways = [
        _between(
            str(max(low, 10 ** (n - 1) * (n > 1))),
            str(10**n - 1 if high is None else min(high, 10**n - 1)),
        )
        for n in range(first, last + 1)
    ]
    more = [f"[1-9][0-9]{{{last},}}"] if high is None else []
    return f"(?:{'|'.join([*ways, *more])})"


def _between(low: str, high: str) -> str:
    """Return the numbers between two of the same number of digits."""
    if low == high:
        return low
    rest = len(low) - 1
    if low[0] == high[0]:
        return low[0] + _between(low[1:], high[1:])
    first, last, ways = int(low[0]), int(high[0]), []
    if int(low[1:] or 0) > 0:
        ways.append(low[0] + _between(low[1:], "9" * rest))
        first += 1
    if int(high[1:] or 9) < 10**rest - 1 and rest:
        ways.append(high[0] + _between("0" * rest, high[1:]))
        last -= 1
    if first <= last:
        ways.append(f"[{first}-{last}]" + "[0-9]" * min(rest, 1) + f"{{{rest}}}" * (rest > 1))
    return f"(?:{'|'.join(ways)})"
