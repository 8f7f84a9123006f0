"""What a grammar costs by every way it can come, and how soon a set of tools is ready.

    python -m bench.micro.grammars MODEL_DIR [--sample N] [--seed N] > report.md

Over the BFCL tools and the MaskBench schemas of `$TOOLGATE_SHARED/data`, at the vocabulary of
MODEL_DIR (`python -m tests.models.tiny_random DIR --tokenizer
$TOOLGATE_SHARED/data/qwen3-tokenizer`). The parts are the backend's own, the quarantine a real
process; between registry and workers there is no engine, whose steps would add to every RPC.
Prints Markdown.
"""

import argparse
import asyncio
import gzip
import json
import os
import random
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.micro.grammars_report import Row, SetTime, report
from bench.support.vocabularies import vocabulary_of
from toolgate_backend.grammars import store
from toolgate_backend.grammars.compiler import Compiler, RewrittenSchema
from toolgate_backend.grammars.quarantine.fork_server import ForkServer, WorkerEnded
from toolgate_backend.grammars.quarantine.protocol import CompileJob, CompileLimits
from toolgate_backend.grammars.quarantine.service import Quarantine
from toolgate_backend.grammars.registry import GrammarRegistry
from toolgate_backend.grammars.worker_rpc import WorkerRpc
from toolgate_backend.settings import Settings
from toolgate_backend.vocabulary import Vocabulary
from toolgate_core import grammar_key
from toolgate_core.errors import ToolgateError
from toolgate_core.schema.limits import check_limits
from toolgate_core.wire import GrammarSource, GrammarVerdict

SHARED = Path(os.environ.get("TOOLGATE_SHARED", Path(__file__).resolve().parents[3] / "shared"))
SIZES = (1, 8, 60, 300)
REPEATS = 5


@dataclass
class Tool:
    origin: str
    source: GrammarSource


def key_parts(vocabulary: Vocabulary) -> dict[str, str]:
    return {
        "dialect": vocabulary.dialect.name,
        "tokenizer": vocabulary.fingerprint,
        "grammar_format": store.grammar_format(),
    }


def load_tools(vocabulary: Vocabulary) -> tuple[list[Tool], int]:
    """Distinct by key, and how many more there are that are over the limits or no schema of an
    object."""
    found: dict[str, Tool] = {}
    left_out: set[str] = set()
    for origin, name, schema in _given():
        try:
            parameters = grammar_key.canonical_parameters(schema)
            check_limits(parameters, Settings().schema_limits, param=name)
            digest = grammar_key.tool_hash(name, parameters)
        except ToolgateError:
            left_out.add(json.dumps([name, schema]))
            continue
        key = grammar_key.grammar_key(digest, **key_parts(vocabulary))
        found[key] = Tool(origin, GrammarSource(key=key, name=name, parameters=parameters))
    return list(found.values()), len(left_out)


def _given() -> Iterator[tuple[str, str, Any]]:
    for case in _lines("bfcl.jsonl.gz"):
        for tool in case["tools"]:
            yield "BFCL", tool["function"]["name"], tool["function"].get("parameters")
    for case in _lines("maskbench.jsonl.gz"):
        yield "MaskBench", "call", case["schema"]


def _lines(name: str) -> Iterator[Any]:
    with gzip.open(SHARED / "data" / name, "rt") as lines:
        yield from map(json.loads, lines)


async def measure(
    tools: Sequence[Tool], fork_server: ForkServer, compiler: Compiler, limits: CompileLimits
) -> list[Row]:
    """Each on a fork of its own: what a backend pays that has just started."""
    rows = []
    for at, tool in enumerate(tools):
        if at % 200 == 0:
            print(f"{at}/{len(tools)}", file=sys.stderr)
        verdict, round_trip = await _examined(fork_server, tool.source, limits)
        again_ms, load_ms, size = _reload_costs(compiler, tool.source, verdict)
        rows.append(
            Row(
                origin=tool.origin,
                engine=verdict.engine or "none",
                status=verdict.code or verdict.status,
                compile_ms=verdict.compile_ms or 0.0,
                round_trip_ms=round_trip,
                again_ms=again_ms,
                load_ms=load_ms,
                blob_bytes=size,
                stored=verdict.blob is not None,
            )
        )
        if verdict.status == "ready":
            tool.source = tool.source.after(verdict)
    return rows


async def _examined(
    fork_server: ForkServer, source: GrammarSource, limits: CompileLimits
) -> tuple[GrammarVerdict, float]:
    parameters = grammar_key.canonical_json(source.parameters)
    job = CompileJob(key=source.key, name=source.name, parameters=parameters, limits=limits)
    began = time.perf_counter()
    worker = await fork_server.fork()
    try:
        verdict = (await worker.examine(job)).verdict
    except WorkerEnded:
        verdict = None
    round_trip = (time.perf_counter() - began) * 1e3
    worker.close()
    if verdict is None:
        verdict = GrammarVerdict(key=source.key, status="refused", code="schema_too_complex")
    return verdict, round_trip


def _reload_costs(
    compiler: Compiler, source: GrammarSource, verdict: GrammarVerdict
) -> tuple[float | None, float | None, int]:
    """Milliseconds that a warm backend spends on what the fleet has examined: by its record alone,
    and by its blob, whether or not the rule would store that; and the blob's size."""
    if verdict.status == "refused":
        return None, None, 0
    parameters = grammar_key.canonical_json(source.parameters)
    made = RewrittenSchema(verdict.rewritten or parameters, verdict.residual)
    began = time.thread_time()
    grammar = compiler.compile(source.key, source.name, parameters, made).grammar
    again_ms = (time.thread_time() - began) * 1e3
    packed = None
    if grammar is not None and verdict.engine == "xgrammar":
        packed = compiler.pack(source.key, grammar)
    if packed is None:
        return again_ms, None, 0
    began = time.thread_time()
    compiler.load(source.key, packed, parameters, made)
    return again_ms, (time.thread_time() - began) * 1e3, len(packed)


class LocalWorkers:
    """One rank's store behind the shape of `collective_rpc`."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._store = store.GrammarStore(vocabulary)

    async def __call__(self, method: str, args: Sequence[Any] = ()) -> list[Any]:
        store.install(self._store)
        methods: dict[str, Any] = dict(store.WORKER_METHODS)
        return [methods[method](None, *args)]

    def cache_warmed(self) -> None:
        self._store.cache_warmed.result()


@asynccontextmanager
async def fresh_backend(
    vocabulary: Vocabulary, fork_server: ForkServer, limits: CompileLimits
) -> AsyncIterator[GrammarRegistry]:
    async def started() -> ForkServer:
        return fork_server

    workers = LocalWorkers(vocabulary)
    await asyncio.to_thread(workers.cache_warmed)
    configured = Settings()
    quarantine = Quarantine(started, limits, workers=configured.quarantine_workers)
    quarantine.start()
    await asyncio.sleep(0.2)  # its workers fork ahead of time
    yield GrammarRegistry(
        WorkerRpc(workers),
        quarantine,
        dialect=vocabulary.dialect.name,
        tokenizer=vocabulary.fingerprint,
        grammar_format=store.grammar_format(),
        capacity=configured.max_grammars,
        schema_limits=configured.schema_limits,
        blob_cache_bytes=configured.blob_cache_mb * 2**20,
    )
    for task in quarantine._tasks:  # not `close`: the process is everybody's
        task.cancel()
    await asyncio.gather(*quarantine._tasks, return_exceptions=True)


async def sets(
    tools: Sequence[Tool],
    vocabulary: Vocabulary,
    fork_server: ForkServer,
    limits: CompileLimits,
    rng: random.Random,
) -> list[SetTime]:
    """Time until a set is ready on a backend that has just started: all of it new, one of it, none
    (the fleet has it all), and asked for again."""
    ready = [tool.source for tool in tools if tool.source.examined]
    times = []
    for size in SIZES:
        if size > len(ready):
            continue
        for _ in range(REPEATS):
            chosen = rng.sample(ready, size)
            for new in dict.fromkeys((size, 1, 0)):
                sources = [_new(s) if at < new else s for at, s in enumerate(chosen)]
                async with fresh_backend(vocabulary, fork_server, limits) as registry:
                    times.append(SetTime(size, new, await _timed(registry, sources)))
                    if new == 0:
                        times.append(SetTime(size, None, await _timed(registry, sources)))
    return times


def _new(source: GrammarSource) -> GrammarSource:
    return source.model_copy(update={"examined": False, "blob": None})


async def _timed(registry: GrammarRegistry, sources: list[GrammarSource]) -> float:
    began = time.perf_counter()
    verdicts = await registry.load(sources)
    took = (time.perf_counter() - began) * 1e3
    assert all(verdict.status == "ready" for verdict in verdicts)
    return took


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="directory of a model with the vocabulary to measure at")
    parser.add_argument("--sample", type=int, help="measure so many tools instead of all")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    vocabulary = vocabulary_of(arguments.model)
    tools, left_out = load_tools(vocabulary)
    rng.shuffle(tools)
    tools = tools[: arguments.sample]
    configured = Settings()
    limits = CompileLimits(
        cpu_seconds=configured.quarantine_cpu_seconds,
        wall_seconds=configured.quarantine_wall_seconds,
        memory_bytes=configured.quarantine_memory_mb * 2**20,
    )
    compiler = Compiler.from_vocabulary(vocabulary, cache_bytes=store.COMPILER_CACHE_BYTES)
    compiler.warm_cache()
    fork_server = await ForkServer.start(vocabulary)
    try:
        rows = await measure(tools, fork_server, compiler, limits)
        times = await sets(tools, vocabulary, fork_server, limits, rng)
    finally:
        fork_server.kill()
    print(report(rows, times, vocabulary=vocabulary.size, left_out=left_out))


if __name__ == "__main__":
    asyncio.run(main())
