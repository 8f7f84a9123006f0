"""Memory and compile time of compiled grammars, by their number, without an engine.

The registry and the store of a backend load BFCL's smallest tools under new names. For each
vocabulary this runs in two processes: without a limit, and with the default limits. The tools count
as examined, so nothing waits for the quarantine.
"""

import asyncio
import multiprocessing
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.support.local_workers import LocalWorkers, key_parts
from bench.support.tools import renamed, small_tools
from tests.support import plots
from tests.support.vocabularies import vocabulary_of
from toolgate_backend.grammars.quarantine.service import Examined
from toolgate_backend.grammars.registry import GrammarRegistry
from toolgate_backend.grammars.worker_rpc import WorkerRpc
from toolgate_backend.settings import Settings
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core import grammar_key
from toolgate_core.tools import parse_tools
from toolgate_core.wire import GrammarSource, GrammarVerdict

COUNTS = (1, 10, 100, 1_000, 3_000, 10_000)
BATCH = 100
"""Grammars per call of the registry."""
KINDS = 300
"""Number of distinct tools. After these, only the names differ."""
UNLIMITED = 10**9


@dataclass(frozen=True)
class Measured:
    """Measurements after `loaded` grammars."""

    loaded: int
    cached: int
    """Grammars still in the store."""
    rss_mb: float
    """Resident memory of the process, minus that before the first grammar."""
    cache_mb: float
    """Size of xgrammar's compiler cache, as reported by xgrammar. Part of `rss_mb`."""
    compile_ms: float
    """Median processor time of the grammars since the previous row."""
    slowest_ms: float
    """Their 99th percentile."""


class NoExaminer:
    async def examine(self, source: GrammarSource) -> GrammarVerdict:
        raise NotImplementedError

    async def walk(self, source: GrammarSource, instances: Sequence[Any]) -> Examined:
        raise NotImplementedError


def grammars_part(models: Sequence[Path], counts: Sequence[int], folder: Path) -> str:
    limit = Settings().max_grammars
    lines: dict[str, list[tuple[float, float]]] = {}
    text = [
        f"Default limits: {limit:,} grammars (`TOOLGATE_MAX_GRAMMARS`), and "
        f"{Settings().rules_cache_mb} MB for xgrammar's cache.",
        "",
        "| vocabulary | limit | loaded | in the store | memory, MB | xgrammar's cache, MB "
        "| KB per grammar since the previous row | compile p50 / p99, ms |",
        "|" + " --- |" * 8,
    ]
    for model in models:
        for kept, capacity in (("none", UNLIMITED), ("default", limit)):
            entries, rows = _in_process(model, counts, capacity)
            name = f"{entries:,} entries, limit: {kept}"
            lines[name] = [(row.loaded, row.rss_mb) for row in rows]
            text += [
                f"| {entries:,} | {kept} | {row.loaded:,} | {row.cached:,} | {row.rss_mb:,.1f} "
                f"| {row.cache_mb:,.1f} | {_kb_each(row, before)} "
                f"| {row.compile_ms:.1f} / {row.slowest_ms:.1f} |"
                for row, before in zip(rows, [None, *rows], strict=False)
            ]
    title = "Memory, by grammars loaded"
    plots.lines(folder / "growth-grammars.svg", title, "grammars", "MB", lines)
    return "\n".join(text)


def _kb_each(row: Measured, before: Measured | None) -> str:
    if before is None:  # the first grammar also loads shared data
        return ""
    return f"{1024 * (row.rss_mb - before.rss_mb) / (row.loaded - before.loaded):,.1f}"


def _in_process(model: Path, counts: Sequence[int], capacity: int) -> tuple[int, list[Measured]]:
    """Measure in a new process, because freed memory is rarely returned to the system."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as process:
        return process.submit(_measured, str(model), counts, capacity).result()


def _measured(model: str, counts: Sequence[int], capacity: int) -> tuple[int, list[Measured]]:
    vocabulary = vocabulary_of(model)
    return vocabulary.size, asyncio.run(_grow(vocabulary, counts, capacity))


def local_registry(workers: LocalWorkers, vocabulary: Vocabulary, capacity: int) -> GrammarRegistry:
    """A registry that examines no schema and keeps up to `capacity` grammars."""
    configured, parts = Settings(), key_parts(vocabulary)
    return GrammarRegistry(
        WorkerRpc(workers),
        NoExaminer(),
        dialect=parts["dialect"],
        tokenizer=parts["tokenizer"],
        grammar_format=parts["grammar_format"],
        capacity=capacity,
        schema_limits=configured.schema_limits,
        blob_cache_bytes=configured.blob_cache_mb * 2**20,
    )


async def _grow(vocabulary: Vocabulary, counts: Sequence[int], capacity: int) -> list[Measured]:
    workers = LocalWorkers(vocabulary)
    await asyncio.to_thread(workers.wait_until_warm)
    parts = key_parts(vocabulary)
    registry = local_registry(workers, vocabulary, capacity)
    tools, loaded, found = small_tools(KINDS), 0, list[Measured]()
    before = psutil.Process().memory_info().rss
    for count in sorted(counts):
        times: list[float] = []
        while loaded < count:
            numbers = range(loaded, min(count, loaded + BATCH))
            sources = [_source(tools[at % KINDS], at, parts) for at in numbers]
            verdicts = await registry.load(sources)
            times += [verdict.compile_ms or 0 for verdict in verdicts if verdict.status == "ready"]
            loaded = numbers.stop
        found.append(
            Measured(
                loaded,
                cached=len(workers.store),
                rss_mb=(psutil.Process().memory_info().rss - before) / 2**20,
                cache_mb=workers.xgrammar.get_cache_size_bytes() / 2**20,
                compile_ms=statistics.median(times),
                slowest_ms=sorted(times)[int(0.99 * (len(times) - 1))],
            )
        )
    return found


def _source(tool: dict[str, Any], number: int, parts: dict[str, str]) -> GrammarSource:
    """The tool under names with `number`. `parts` are those of `key_parts`."""
    (parsed,) = parse_tools([renamed(tool, str(number))])
    key = grammar_key.grammar_key(parsed.hash, **parts)
    return GrammarSource(key=key, name=parsed.name, parameters=parsed.parameters, examined=True)
