"""Strings of tools as real tools constrain them, and values as a trained model writes them."""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Literal, get_args

from tests.support.shared_data import TOOLS, records

Strings = Literal["pattern", "format", "length", "mixed"]
"""Constraints of all strings. `mixed`: as frequent as in the real tools of the data set."""
SENTENCE = (
    "the quick report of Oslo weather in March shows that revenue grew by seven percent while "
    "costs fell and customers from Norway asked about new delivery options for winter boots"
)
WORDS = SENTENCE.split()
STRING_WORDS = 8, 40
"""The least number of words in a string, and the first number above the most."""
KEYWORDS = ("pattern", "format", "minLength", "maxLength")
FORMATS: Mapping[str, Callable[[random.Random], str]] = {
    "date": lambda rng: f"20{rng.randrange(10, 40)}-07-{rng.randrange(10, 31)}",
    "date-time": lambda rng: f"{FORMATS['date'](rng)}T1{rng.randrange(10)}:00:00Z",
    "email": lambda rng: f"{rng.choice(WORDS).lower()}@example.com",
    "uri": lambda rng: f"https://example.com/{rng.choice(WORDS)}/{rng.randrange(1000)}",
    "uuid": lambda rng: str(uuid.UUID(int=rng.getrandbits(128), version=4)),
}
CONSTRAINTS: Mapping[Strings, Callable[[random.Random], dict[str, Any]]] = {
    "pattern": lambda _: {"pattern": "^[A-Za-z0-9 .,'-]+$"},
    "format": lambda rng: {"format": rng.choice([*FORMATS])},
    "length": lambda rng: rng.choice(({"maxLength": 1000}, {"minLength": 3})),
    "mixed": lambda rng: _real_constraint(rng),
}
assert set(CONSTRAINTS) == set(get_args(Strings))


def constrained(schema: Any, kind: Strings, rng: random.Random) -> Any:
    """The schema with constraints of its free strings."""
    match schema:
        case {"type": "string"} if "enum" not in schema:
            return schema | CONSTRAINTS[kind](rng)
        case dict():
            return {name: constrained(each, kind, rng) for name, each in schema.items()}
        case list():
            return [constrained(each, kind, rng) for each in schema]
        case _:
            return schema


def natural_string(schema: Mapping[str, Any], rng: random.Random) -> str:
    """Words, if the schema allows them. Raises ValueError if no value is known."""
    for text in _candidates(schema, rng):
        text = text[: schema.get("maxLength")]
        long_enough = len(text) >= schema.get("minLength", 0)
        if long_enough and re.search(schema.get("pattern", ""), text):
            return text
    raise ValueError(f"no value of {schema} is known")


def _candidates(schema: Mapping[str, Any], rng: random.Random) -> Iterator[str]:
    if "format" in schema:
        if schema["format"] in FORMATS:
            yield FORMATS[schema["format"]](rng)
        return
    words = [rng.choice(WORDS) for _ in range(rng.randrange(*STRING_WORDS))]
    yield " ".join(words)
    yield "-".join(words[:3]).lower()
    yield str(rng.randrange(1000))


def _real_constraint(rng: random.Random) -> dict[str, Any]:
    return rng.choice(_real_constraints())


@cache
def _real_constraints() -> list[dict[str, Any]]:
    """Of each string in the tools of the data set, if values of it are known."""
    return [
        found
        for each in _strings([record["schema"] for record in records(TOOLS)])
        if _is_writable(found := {name: each[name] for name in KEYWORDS if name in each})
    ]


def _is_writable(schema: Mapping[str, Any]) -> bool:
    try:
        natural_string(schema, random.Random(1))
    except (ValueError, re.error):
        return False
    return "(?" not in schema.get("pattern", "")  # vLLM's strict tools refuse it


def _strings(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if schema.get("type") == "string" and "enum" not in schema:
            yield schema
        schema = [*schema.values()]
    if isinstance(schema, list):
        for each in schema:
            yield from _strings(each)
