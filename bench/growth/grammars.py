"""What compiled grammars take: memory and compile time as their number grows, without an engine.

For each vocabulary two processes of their own take in BFCL's smallest tools under ever new names,
through the registry and the store that a backend has: one keeps all of them, one what the default
limits let it keep. What comes has been examined before, so nothing waits for a quarantine.
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

from bench.micro.grammars import LocalWorkers, key_parts
from bench.scenarios.interference import renamed
from bench.support import plots
from bench.support.tools import small_tools
from bench.support.vocabularies import vocabulary_of
from toolgate_backend.grammars import store
from toolgate_backend.grammars.registry import GrammarRegistry
from toolgate_backend.grammars.worker_rpc import WorkerRpc
from toolgate_backend.settings import Settings
from toolgate_backend.vocabulary import Vocabulary
from toolgate_core import grammar_key
from toolgate_core.tools import parse_tools
from toolgate_core.wire import GrammarSource, GrammarVerdict

COUNTS = (1, 10, 100, 1_000, 3_000, 10_000)
BATCH = 100
"""Grammars that are asked for at once."""
KINDS = 300
"""Different tools, before the names alone are new."""
EVERYTHING = 10**9


@dataclass(frozen=True)
class Held:
    """After `asked` grammars."""

    asked: int
    held: int
    rss_mb: float
    """Of the process, over what it took when it was ready."""
    cache_mb: float
    """Of that, xgrammar's own cache of what it compiled, as it says itself."""
    compile_ms: float
    """Of the processor, the median of those since the row before."""
    slowest_ms: float
    """The 99th percentile of them."""


class NoExaminer:
    async def examine(self, source: GrammarSource) -> GrammarVerdict:
        raise NotImplementedError


def grammars_part(models: Sequence[Path], counts: Sequence[int], folder: Path) -> str:
    limit = Settings().max_grammars
    lines: dict[str, list[tuple[float, float]]] = {}
    text = [
        f"Within limits: {limit:,} grammars (`TOOLGATE_MAX_GRAMMARS`), and "
        f"{store.COMPILER_CACHE_BYTES / 2**20:.0f} MB for xgrammar's cache.",
        "",
        "| entries | kept | asked for | held | memory, MB | xgrammar's cache, MB "
        "| KB each since the row before | compile p50 / p99, ms |",
        "|" + " --- |" * 8,
    ]
    for model in models:
        for kept, capacity in (("all", EVERYTHING), ("within limits", limit)):
            entries, rows = _alone(model, counts, capacity)
            name = f"{entries:,} entries, {kept}"
            lines[name] = [(row.asked, row.rss_mb) for row in rows]
            text += [
                f"| {entries:,} | {kept} | {row.asked:,} | {row.held:,} | {row.rss_mb:,.1f} "
                f"| {row.cache_mb:,.1f} | {_kb_each(row, before)} "
                f"| {row.compile_ms:.1f} / {row.slowest_ms:.1f} |"
                for row, before in zip(rows, [None, *rows], strict=False)
            ]
    title = "Memory, by grammars asked for"
    plots.lines(folder / "growth-grammars.svg", title, "grammars", "MB", lines)
    return "\n".join(text)


def _kb_each(row: Held, before: Held | None) -> str:
    if before is None:  # what is loaded with the first one tells nothing of the others
        return ""
    return f"{1024 * (row.rss_mb - before.rss_mb) / (row.asked - before.asked):,.1f}"


def _alone(model: Path, counts: Sequence[int], capacity: int) -> tuple[int, list[Held]]:
    """In a process of its own: memory that was freed is seldom given back."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as process:
        return process.submit(_measured, str(model), counts, capacity).result()


def _measured(model: str, counts: Sequence[int], capacity: int) -> tuple[int, list[Held]]:
    vocabulary = vocabulary_of(model)
    return vocabulary.size, asyncio.run(_grow(vocabulary, counts, capacity))


async def _grow(vocabulary: Vocabulary, counts: Sequence[int], capacity: int) -> list[Held]:
    workers = LocalWorkers(vocabulary)
    await asyncio.to_thread(workers.cache_warmed)
    configured, parts = Settings(), key_parts(vocabulary)
    registry = GrammarRegistry(
        WorkerRpc(workers),
        NoExaminer(),
        dialect=parts["dialect"],
        tokenizer=parts["tokenizer"],
        grammar_format=parts["grammar_format"],
        capacity=capacity,
        schema_limits=configured.schema_limits,
        blob_cache_bytes=configured.blob_cache_mb * 2**20,
    )
    tools, asked, found = small_tools(KINDS), 0, list[Held]()
    before = psutil.Process().memory_info().rss
    for count in sorted(counts):
        times: list[float] = []
        while asked < count:
            numbers = range(asked, min(count, asked + BATCH))
            sources = [_source(tools[at % KINDS], at, parts) for at in numbers]
            verdicts = await registry.load(sources)
            times += [verdict.compile_ms or 0 for verdict in verdicts if verdict.status == "ready"]
            asked = numbers.stop
        found.append(
            Held(
                asked,
                held=len(workers._store),
                rss_mb=(psutil.Process().memory_info().rss - before) / 2**20,
                cache_mb=workers._store._compiler._xgrammar._compiler.get_cache_size_bytes()
                / 2**20,
                compile_ms=statistics.median(times),
                slowest_ms=sorted(times)[int(0.99 * (len(times) - 1))],
            )
        )
    return found


def _source(tool: dict[str, Any], number: int, parts: dict[str, str]) -> GrammarSource:
    """The tool under names that no other number has; `parts` are those of its key."""
    (parsed,) = parse_tools([renamed(tool, str(number))])
    key = grammar_key.grammar_key(parsed.hash, **parts)
    return GrammarSource(key=key, name=parsed.name, parameters=parsed.parameters, examined=True)
