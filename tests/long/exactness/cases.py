"""Schemas with instances: real schemas, tools with their true calls, and the official suite."""

from __future__ import annotations

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
                    value = {k: _first(v) for k, v in arguments.items() if _first(v) != ""}
                    schema = tools[name].get("parameters") or {"type": "object"}
                    yield f"{case['id']} {at}", case["category"], schema, [value]


def _first(alternatives: Any) -> Any:
    value = alternatives[0] if isinstance(alternatives, list) and alternatives else ""
    if isinstance(value, dict):
        return {k: _first(v) for k, v in value.items() if _first(v) != ""}
    if isinstance(value, list):
        return [
            {k: _first(v) for k, v in each.items() if _first(v) != ""}
            if isinstance(each, dict)
            else each
            for each in value
        ]
    return value
