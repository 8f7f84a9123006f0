"""Compile and load times of grammars, and the time until a set of tools is ready.

    python -m bench grammars MODEL_DIR [--sample N] [--seed N] > report.md

Uses the BFCL tools and MaskBench schemas of `$TOOLGATE_SHARED/data`, with the vocabulary of
MODEL_DIR (`make bench NAME=grammars` has one with Qwen3's). The backend's own classes run here,
with a real quarantine process. There is no engine between registry and workers, whose steps would
delay every RPC. Prints Markdown.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bench.grammars_report import Row, SetTime, report
from bench.support.local_workers import LocalWorkers, key_parts, local_registry
from tests.support.shared_data import BFCL, MASKBENCH, records
from tests.support.vocabularies import vocabulary_of
from toolgate_backend.grammars.compiler import Compiler
from toolgate_backend.grammars.quarantine import CPU_SECONDS, WALL_SECONDS, Quarantine
from toolgate_backend.grammars.registry import GrammarRegistry
from toolgate_backend.settings import Settings
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core import grammar_key
from toolgate_core.errors import ToolgateError
from toolgate_core.killable import JobLimits
from toolgate_core.schema.canonical import canonical_json, canonical_parameters
from toolgate_core.schema.limits import check_limits
from toolgate_core.wire import GrammarSource, GrammarVerdict

SIZES = (1, 8, 60, 300)
REPEATS = 5


@dataclass
class Tool:
    origin: str
    source: GrammarSource


def load_tools(vocabulary: Vocabulary) -> tuple[list[Tool], int]:
    """Tools with distinct keys, and the number of tools left out.

    A tool is left out if it exceeds the limits, or if its schema is not that of an object.
    """
    found: dict[str, Tool] = {}
    left_out: set[str] = set()
    for origin, name, schema in _schemas():
        try:
            parameters = canonical_parameters(schema)
            check_limits(parameters, param=name)
            digest = grammar_key.tool_hash(name, parameters)
        except ToolgateError:
            left_out.add(json.dumps([name, schema]))
            continue
        key = grammar_key.grammar_key(digest, **key_parts(vocabulary))
        found[key] = Tool(origin, GrammarSource(key=key, name=name, parameters=parameters))
    return list(found.values()), len(left_out)


def _schemas() -> Iterator[tuple[str, str, Any]]:
    for case in records(BFCL):
        for tool in case["tools"]:
            yield "BFCL", tool["function"]["name"], tool["function"].get("parameters")
    for case in records(MASKBENCH):
        yield "MaskBench", "call", case["schema"]


async def measure(tools: Sequence[Tool], quarantine: Quarantine, compiler: Compiler) -> list[Row]:
    """Examine each tool in a new quarantine process, as a backend does after its start."""
    rows = []
    for at, tool in enumerate(tools):
        if at % 200 == 0:
            print(f"{at}/{len(tools)}", file=sys.stderr)
        _end_workers(quarantine)
        began = time.perf_counter()
        verdict = await quarantine.examine(tool.source)
        round_trip = (time.perf_counter() - began) * 1e3
        recompile_ms, load_ms, size = _reload_costs(compiler, tool.source, verdict)
        rows.append(
            Row(
                origin=tool.origin,
                engine=verdict.engine or "none",
                status=verdict.code or verdict.status,
                compile_ms=verdict.compile_ms or 0.0,
                round_trip_ms=round_trip,
                recompile_ms=recompile_ms,
                load_ms=load_ms,
                blob_bytes=size,
                stored=verdict.blob is not None,
            )
        )
        if verdict.status == "ready":
            tool.source = tool.source.after(verdict)
    return rows


def _reload_costs(
    compiler: Compiler, source: GrammarSource, verdict: GrammarVerdict
) -> tuple[float | None, float | None, int]:
    """Costs of a warm backend for an examined tool: compile time without the blob, load time of the
    blob (both in ms), and the blob's size. The blob is measured even if it would not be stored."""
    if verdict.status == "refused":
        return None, None, 0
    parameters = canonical_json(source.parameters)
    began = time.thread_time()
    grammar = compiler.compile(source.key, source.name, parameters, verdict).grammar
    recompile_ms = (time.thread_time() - began) * 1e3
    packed = None
    if grammar is not None and verdict.engine == "xgrammar":
        packed = compiler.pack(source.key, grammar)
    if packed is None:
        return recompile_ms, None, 0
    began = time.thread_time()
    compiler.load(source.key, packed, parameters, verdict)
    return recompile_ms, (time.thread_time() - began) * 1e3, len(packed)


@asynccontextmanager
async def fresh_backend(
    vocabulary: Vocabulary, quarantine: Quarantine
) -> AsyncIterator[GrammarRegistry]:
    workers = LocalWorkers(vocabulary)
    await asyncio.to_thread(workers.wait_until_warm)
    _end_workers(quarantine)
    await quarantine.warm_up()
    yield local_registry(workers, vocabulary, quarantine)


def _end_workers(quarantine: Quarantine) -> None:
    while quarantine.pool._idle:
        quarantine.pool._idle.pop().kill()


async def sets(
    tools: Sequence[Tool],
    vocabulary: Vocabulary,
    quarantine: Quarantine,
    rng: random.Random,
) -> list[SetTime]:
    """Time until a set of tools is ready on a fresh backend.

    All, one or none of its tools are new to the fleet. With none, the set is also loaded a second
    time.
    """
    ready = [tool.source for tool in tools if tool.source.examined]
    times = []
    for size in SIZES:
        if size > len(ready):
            continue
        for _ in range(REPEATS):
            chosen = rng.sample(ready, size)
            for new in dict.fromkeys((size, 1, 0)):
                sources = [_new(s) if at < new else s for at, s in enumerate(chosen)]
                async with fresh_backend(vocabulary, quarantine) as registry:
                    times.append(SetTime(size, new, await _timed(registry, sources)))
                    if new == 0:
                        times.append(SetTime(size, None, await _timed(registry, sources)))
    return times


def _new(source: GrammarSource) -> GrammarSource:
    return source.model_copy(update={"examined": None})


async def _timed(registry: GrammarRegistry, sources: list[GrammarSource]) -> float:
    began = time.perf_counter()
    verdicts = await registry.load(sources)
    took = (time.perf_counter() - began) * 1e3
    assert all(verdict.status == "ready" for verdict in verdicts)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="directory of a model with the vocabulary")
    parser.add_argument("--sample", type=int, help="number of tools; default: all")
    parser.add_argument("--seed", type=int, default=1)
    asyncio.run(run(parser.parse_args()))


async def run(arguments: argparse.Namespace) -> None:
    rng = random.Random(arguments.seed)
    vocabulary = vocabulary_of(arguments.model)
    tools, left_out = load_tools(vocabulary)
    rng.shuffle(tools)
    tools = tools[: arguments.sample]
    configured = Settings()
    limits = JobLimits(CPU_SECONDS, WALL_SECONDS, configured.quarantine_memory_mb * 2**20)
    quarantine = Quarantine(vocabulary, limits)
    compiler = Compiler.from_vocabulary(vocabulary, cache_bytes=configured.rules_bytes)
    compiler.warm_cache()
    await quarantine.warm_up()
    try:
        rows = await measure(tools, quarantine, compiler)
        times = await sets(tools, vocabulary, quarantine, rng)
    finally:
        quarantine.pool.close()
    print(report(rows, times, vocabulary=vocabulary.size, left_out=left_out))
