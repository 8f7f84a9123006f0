"""Schemas with instances: real schemas, tools with their true calls, and the official suite."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.support.schemas import suites
from tests.support.shared_data import BFCL, records
from toolgate_core.errors import ToolgateError
from toolgate_core.schema.canonical import canonical_schema

SOURCES = ("maskbench", "bfcl", "suite")


@dataclass(frozen=True)
class Case:
    id: str
    source: str
    group: str
    schema: Any
    canonical: dict[str, Any]
    """The schema in the canonical form of Toolgate, which validates the same values."""
    instances: list[Any]


def cases(sources: list[str], count: int, seed: int) -> Iterator[Case]:
    """A sample of at most `count` schemas of each source; all of them if `count` is 0."""
    for source in sources:
        found = list({"maskbench": _maskbench, "bfcl": _bfcl, "suite": _suite}[source]())
        if count:
            random.Random(f"{seed} {source}").shuffle(found)
            found = found[:count]
        for name, group, schema, instances in found:
            given = {} if schema is True else {"not": {}} if schema is False else schema
            try:
                canonical = canonical_schema(given, param="schema")
            except ToolgateError:
                continue  # refused up front: no mask is made of it
            yield Case(f"{source} {name}", source, group, given, canonical, instances)


_Found = Iterator[tuple[str, str, Any, list[Any]]]


def _maskbench() -> _Found:
    for case in suites.maskbench():
        yield case.name, case.group, case.schema, [value for _, value in case.instances]


def _suite() -> _Found:
    for at, case in enumerate(suites.suite()):
        if not case.optional:
            name = f"{case.source} {case.group} {at}"
            yield name, case.group, case.schema, [value for _, value in case.instances]


def _bfcl() -> _Found:
    """Tools with the arguments of their true calls. The data set has alternatives for each
    argument; the first one is taken."""
    for case in records(BFCL):
        tools = {each["function"]["name"]: each["function"] for each in case["tools"]}
        for at, call in enumerate(case["ground_truth"] or ()):
            for name, arguments in call.items() if isinstance(call, dict) else ():
                if name in tools and isinstance(arguments, dict):
                    value = _members(arguments)
                    schema = tools[name].get("parameters") or {"type": "object"}
                    yield f"{case['id']} {at}", case["category"], schema, [value]


def _first(alternatives: Any) -> Any:
    value = alternatives[0] if isinstance(alternatives, list) and alternatives else ""
    if isinstance(value, list):
        return [_members(each) for each in value]
    return _members(value)


def _members(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: _first(each) for name, each in value.items() if _first(each) != ""}


SCALARS: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 0.5, -0.5, 3.0, 7, 10, 100, 1e21, 1e-7, 2**53, -(2**53)),
    *("", "a", "A", "0", " ", "é", "\n", "ab", "aaa", "a@b.co"),
    *("2024-02-30", "2024-02-29", "x" * 40),
)
NAMES = ("a", "b", "extra", "")


def neighbours(value: Any, count: int, dice: random.Random) -> Iterator[Any]:
    """Copies of `value` that differ in one or two random places."""
    for _ in range(count):
        changed = [copy.deepcopy(value)]
        for _ in range(dice.choice((1, 1, 1, 2))):
            places = list(_places(changed, 0))
            parent, key = dice.choice(places)
            _change(parent, key, dice)
        yield changed[0]


def small_values(names: list[str], count: int, dice: random.Random) -> Iterator[Any]:
    """Scalars, and random lists and objects with up to three of them."""
    yield from SCALARS
    yield from ([], {})
    known = [*names[:4], *NAMES]
    for _ in range(count):
        yield _small(known, 2, dice)


def _small(names: list[str], depth: int, dice: random.Random) -> Any:
    kind = dice.random()
    if depth and kind < 0.3:
        return [_small(names, depth - 1, dice) for _ in range(dice.randrange(4))]
    if depth and kind < 0.8:
        chosen = dice.sample(names, min(len(names), dice.randrange(4)))
        return {name: _small(names, depth - 1, dice) for name in chosen}
    return dice.choice(SCALARS)


def _places(parent: Any, depth: int) -> Iterator[tuple[Any, Any]]:
    keys = list(parent) if isinstance(parent, dict) else range(len(parent))
    for key in keys:
        yield parent, key
        if isinstance(parent[key], dict | list) and depth < 12:
            yield from _places(parent[key], depth + 1)


def _change(parent: Any, key: Any, dice: random.Random) -> None:
    value = parent[key]
    ways = ["replace", "remove"]
    if isinstance(value, dict):
        ways += ["add", "add"]
    elif isinstance(value, list):
        ways += ["repeat", "append", "shorten"]
    elif isinstance(value, str):
        ways += ["longer", "shorter", "case"]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        ways += ["near", "near", "near"]
    match dice.choice(ways):
        case "remove" if isinstance(parent, dict):
            del parent[key]
        case "add":
            value[dice.choice(NAMES)] = dice.choice(SCALARS)
        case "repeat" if value:
            value.append(copy.deepcopy(dice.choice(value)))
        case "append":
            value.append(dice.choice(SCALARS))
        case "shorten" if value:
            value.pop()
        case "longer":
            parent[key] = value + dice.choice(("a", "0", " ", value[:20], '"', "é", "\\"))
        case "shorter":
            parent[key] = value[: dice.randrange(len(value) + 1)]
        case "case":
            parent[key] = value.swapcase()
        case "near":
            parent[key] = dice.choice((value + 1, value - 1, -value, value + 0.5, value * 1000))
        case _:
            parent[key] = dice.choice(SCALARS)
