"""Cost per request of parsing tools and validating calls in the gateway.

    python -m bench validation-overhead [--requests N] [--seed N]

Runs in one process, with the tools and reference calls of BFCL (`$TOOLGATE_SHARED/data`): sets of
1, 8 and 60 tools, and one finished call of each set. Prints Markdown: milliseconds of processor
time.
"""

import argparse
import asyncio
import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bench.support.data import BFCL, records
from toolgate_core.errors import ToolgateError
from toolgate_core.schema.canonical import canonical_json
from toolgate_core.schema.limits import check_limits
from toolgate_core.schema.preparation.prepare import prepare
from toolgate_core.tools import Tool, _cached, parse_tools
from toolgate_proxy.validation.service import ValidationService

SIZES = (1, 8, 60)
PARSE = "parse known tools"
FIND = "look up their validators"
CHECK = "validate one finished call"
PARSE_NEW = "new tools, once per process: canonical form and hash"
COMPILE = "new tools, once per process: compile their validators"
SURVEY = "new tools, once per fleet: check limits and coverage"
ROWS = (PARSE, FIND, CHECK, PARSE_NEW, COMPILE, SURVEY)


@dataclass
class Sample:
    """A tool of a request, and the arguments of a reference call."""

    entry: dict[str, Any]
    arguments: str


def samples() -> list[Sample]:
    return [sample for sample in _samples() if _usable(sample)]


def _samples() -> Iterator[Sample]:
    seen: set[str] = set()
    for case in records(BFCL):
        entries = {tool["function"]["name"]: tool for tool in case["tools"]}
        for call in case["ground_truth"] or ():
            for name, possible in call.items():
                if name not in entries or name in seen or not isinstance(possible, dict):
                    continue
                seen.add(name)
                given = {key: values[0] for key, values in possible.items() if values}
                text = json.dumps({k: v for k, v in given.items() if v != ""})
                yield Sample(entries[name], text)


def _usable(sample: Sample) -> bool:
    try:
        parse_tools([sample.entry])
    except ToolgateError:
        return False
    return True


def survey(tool: Tool) -> None:
    """Check the limits of the tool's schema, and find out what masks can enforce of it."""
    check_limits(tool.parameters, param="tools")
    prepare(tool.parameters)


async def measure(found: list[Sample], requests: int, rng: random.Random) -> Iterator[str]:
    rows: dict[str, dict[int, list[float]]] = {n: {size: [] for size in SIZES} for n in ROWS}
    validators = ValidationService()
    for size in SIZES:
        for _ in range(requests):
            drawn = rng.sample(found, size)
            entries = [sample.entry for sample in drawn]
            _cached.cache_clear()
            for name in (PARSE_NEW, PARSE):
                began = time.thread_time()
                tools = parse_tools(entries)
                rows[name][size].append(_ms(began))
            began = time.thread_time()
            for tool in tools:
                survey(tool)
            rows[SURVEY][size].append(_ms(began))
            fresh = ValidationService()
            param_of = {tool.name: "tools" for tool in tools}
            began = time.thread_time()
            await fresh.prepare(tools, param_of)
            rows[COMPILE][size].append(_ms(began))
            await validators.prepare(tools, param_of)
            began = time.thread_time()
            await validators.prepare(tools, param_of)
            rows[FIND][size].append(_ms(began))
            began = time.thread_time()
            await validators.check(tools[0], drawn[0].arguments)
            rows[CHECK][size].append(_ms(began))
    return _table(rows)


def _ms(began: float) -> float:
    return (time.thread_time() - began) * 1e3


def _table(rows: dict[str, dict[int, list[float]]]) -> Iterator[str]:
    yield "| ms, p50 / p99 | " + " | ".join(f"{size} tools" for size in SIZES) + " |"
    yield "| --- |" + " --- |" * len(SIZES)
    for name, by_size in rows.items():
        cells = []
        for size in SIZES:
            ordered = sorted(by_size[size])
            p50, p99 = (ordered[int((len(ordered) - 1) * share)] for share in (0.5, 0.99))
            cells.append(f"{p50:.3f} / {p99:.3f}")
        yield f"| {name} | " + " | ".join(cells) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=500, help="requests per size")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found = samples()
    lengths = sorted(len(sample.arguments) for sample in found)
    schema = sorted(
        len(canonical_json(parse_tools([sample.entry])[0].parameters)) for sample in found
    )
    print(
        f"{len(found)} tools with a reference call; p50 of canonical schemas: "
        f"{schema[len(schema) // 2]} characters, of arguments: {lengths[len(lengths) // 2]}.\n"
    )
    for line in asyncio.run(measure(found, options.requests, random.Random(options.seed))):
        print(line)
    return 0
