"""Memory of a backend that gets new schemas without end, and their compile times.

The registry and the store of a backend load schemas none of which is like another: names, enums,
bounds and nesting are random. So neither the cache of grammars nor that of xgrammar's rules helps.
Every schema is new and examined, as after the quarantine. No engine runs; the limits are the
defaults. Reported are the resident memory of the process and the memory that is allocated in it
(glibc's mallinfo2), both minus those before the first schema. The memory has reached its bound if
the last rows do not grow. The difference between the two is fragmentation. With a small
`TOOLGATE_CACHE_MB`, the bound is reached early. With calls, a random call of each schema is
written, which makes the token graphs grow: *graphs* is what they count, and in parentheses how
often they have begun anew.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import random
from collections.abc import Sequence
from statistics import median
from typing import Any

import psutil

from bench.support.local_workers import LocalWorkers, key_parts, local_registry
from tests.support import markdown
from tests.support.vocabularies import JSON_CLOSERS, vocabulary_of
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.model_data import ModelData
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.enforcement.turn_graph import TurnGraphs
from toolgate_backend.grammars.store import GrammarStore
from toolgate_backend.settings import Settings
from toolgate_backend.tokens import masks
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core import grammar_key
from toolgate_core.tools import parse_tools
from toolgate_core.wire import GrammarSource, GrammarVerdict

HEAD = (
    *("schemas", "in the store", "memory, MB", "allocated, MB", "xgrammar's cache, MB"),
    *("KB per new schema", "graphs, MB", "compile p50 / p99, ms"),
)
BATCH = 50
"""Schemas per call of the registry."""
LETTERS = "abcdefghijklmnopqrstuvwxyz_"
MAX_TOKENS = 200
CLOSING = 0.3
"""Probability of a token that ends something, where one is allowed."""


async def grow(model: str, count: int, every: int, *, with_calls: bool) -> None:
    """Load `count` schemas, and print a row after each `every` of them."""
    vocabulary = vocabulary_of(model)
    workers = LocalWorkers(vocabulary)
    await asyncio.to_thread(workers.wait_until_warm)
    configured, parts = Settings(), key_parts(vocabulary)
    registry = local_registry(workers, vocabulary)
    calls = WrittenCalls(vocabulary, workers.store)
    cache = workers.xgrammar
    process, drawn = psutil.Process(), random.Random(1)
    before = last = process.memory_info().rss
    allocated_before = allocated()
    print(f"Vocabulary: {vocabulary.size:,} entries. {configured.max_grammars:,} grammars kept.\n")
    print(markdown.head(HEAD), flush=True)
    loaded = 0
    while loaded < count:
        times: list[float] = []
        for _ in range(every // BATCH):
            sources = [_source(tool(drawn, loaded + at), parts) for at in range(BATCH)]
            verdicts = await registry.load(sources)
            assert all(verdict.status == "ready" for verdict in verdicts), verdicts
            times += [verdict.compile_ms or 0 for verdict in verdicts]
            if with_calls:
                calls.write([source.key for source in sources])
            loaded += BATCH
        rss = process.memory_info().rss
        cells = (
            *(f"{loaded:,}", f"{len(workers.store):,}", f"{(rss - before) / 2**20:,.0f}"),
            f"{(allocated() - allocated_before) / 2**20:,.0f}",
            f"{cache.get_cache_size_bytes() / 2**20:,.0f}",
            f"{(rss - last) / 1024 / every:,.1f}",
            f"{calls.graph_bytes / 2**20:,.0f} ({calls.generation})",
            f"{median(times):.1f} / {sorted(times)[int(0.99 * (len(times) - 1))]:.1f}",
        )
        print(markdown.row(cells), flush=True)
        last = rss
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    trimmed = (process.memory_info().rss - before) / 2**20
    print(f"\nAfter malloc_trim, which returns freed memory to the system: {trimmed:,.0f} MB.")


class _MallInfo(ctypes.Structure):
    """glibc's `struct mallinfo2`."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def allocated() -> int:
    """Bytes that are allocated in all arenas and in mappings of their own."""
    read = ctypes.CDLL(None).mallinfo2
    read.restype = _MallInfo
    found = read()
    return int(found.uordblks + found.hblkhd)


def tool(drawn: random.Random, number: int) -> dict[str, Any]:
    parameters = _object(drawn, depth=2)
    return {"type": "function", "function": {"name": f"t{number}", "parameters": parameters}}


def _object(drawn: random.Random, depth: int) -> dict[str, Any]:
    names = [_word(drawn) for _ in range(drawn.randint(2, 6))]
    properties = {name: _value(drawn, depth - 1) for name in names}
    required = [name for name in properties if drawn.random() < 0.5]
    return {"type": "object", "properties": properties, "required": required}


def _value(drawn: random.Random, depth: int) -> dict[str, Any]:
    kind = drawn.choice(("string", "enum", "integer", "array", "object" if depth else "string"))
    if kind == "object":
        return _object(drawn, depth)
    if kind == "enum":
        return {"type": "string", "enum": sorted({_word(drawn) for _ in range(5)})}
    if kind == "integer":
        least = drawn.randint(0, 10**4)
        return {"type": "integer", "minimum": least, "maximum": least + drawn.randint(1, 10**6)}
    if kind == "array":
        return {"type": "array", "items": {"type": "string", "maxLength": drawn.randint(1, 200)}}
    return {"type": "string", "description": _word(drawn)}


def _word(drawn: random.Random) -> str:
    return "".join(drawn.choices(LETTERS, k=drawn.randint(3, 14)))


def _source(entry: dict[str, Any], parts: dict[str, str]) -> GrammarSource:
    (parsed,) = parse_tools([json.loads(json.dumps(entry))])
    key = grammar_key.grammar_key(parsed.hash, **parts)
    source = GrammarSource(key=key, name=parsed.name, parameters=parsed.parameters)
    return source.after(GrammarVerdict(key=key, status="ready"))


class WrittenCalls:
    """Random calls of loaded tools, which make the tools' token graphs grow."""

    def __init__(self, vocabulary: Vocabulary, store: GrammarStore) -> None:
        """Uses the grammars of `store` as an adapter does."""
        self._turns, self._store = TurnGraphs(ModelData(vocabulary)), store
        self._turns.follow(store)
        self._closers = [i for i, text in enumerate(vocabulary.token_bytes) if text in JSON_CLOSERS]
        self._closers += [*vocabulary.marks.tokens.values(), vocabulary.marks.end_of_turn[0]]
        self._drawn = random.Random(1)

    @property
    def graph_bytes(self) -> int:
        """As the graphs count them."""
        return self._turns.model.graphs.memory.bytes

    @property
    def generation(self) -> int:
        """How often the graphs have begun anew."""
        return self._turns.model.graphs.memory.generation

    def write(self, keys: Sequence[str]) -> None:
        """Write a call of each of these tools."""
        for key in keys:
            spec = Spec("required", (key,), max_calls=1, reasoning="closed", budget=MAX_TOKENS)
            automaton = Automaton(self._turns, spec, *spec.grammars_in(self._store))
            while not automaton.is_terminated():
                automaton.accept(self._token(automaton))

    def _token(self, automaton: Automaton) -> int:
        words = automaton.next_row().words
        closers = [token for token in self._closers if words[token >> 5] >> (token & 31) & 1]
        if closers and self._drawn.random() < CLOSING:
            return self._drawn.choice(closers)
        return int(self._drawn.choice(masks.unpack(words)))
