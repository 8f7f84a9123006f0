"""A registry over a real store, reached as vLLM would: one answer a rank."""

import asyncio

from toolgate_backend.grammars import store, worker_rpc
from toolgate_backend.grammars.compiler import Compiler
from toolgate_backend.grammars.registry import GrammarRegistry
from toolgate_backend.grammars.store import GrammarStore, grammar_format
from toolgate_core import grammar_key
from toolgate_core.errors import ChecksFailed, SchemaTooComplex
from toolgate_core.schema.canonical import canonical_json, canonical_parameters
from toolgate_core.wire import GrammarSource, GrammarVerdict

PARTS = {"dialect": "qwen3", "tokenizer": "t", "grammar_format": grammar_format()}


class WorkerRpc:
    """Two ranks' stores behind the shape of `collective_rpc`."""

    def __init__(self, vocabulary, limits=store.LIMITS):
        self.stores = [GrammarStore(vocabulary, limits=limits) for _ in range(2)]
        self.calls = []

    async def __call__(self, method, args=()):
        self.calls.append(method)
        answers = []
        for rank in self.stores:
            store.install(rank)
            answers.append(store.WORKER_METHODS[method](None, *args))
        return answers


class Bench:
    """In the quarantine's place: what was examined there, and verdicts as it would give them."""

    def __init__(self, vocabulary):
        self._compiler = Compiler.from_vocabulary(vocabulary, cache_bytes=2**26)
        self.examined = []
        self.down = False
        self.too_dear = False
        self.held = asyncio.Event()
        self.held.set()

    async def examine(self, source):
        self.examined.append(source.key)
        await self.held.wait()
        if self.down:
            raise ChecksFailed("down")
        if self.too_dear:
            return GrammarVerdict(
                key=source.key, status="refused", reason="slow", code=SchemaTooComplex.code
            )
        parameters = canonical_json(source.parameters)
        outcome = self._compiler.compile(source.key, source.name, parameters)
        packed = outcome.grammar and self._compiler.pack(source.key, outcome.grammar)
        return outcome.verdict.model_copy(update={"blob": packed})


class Clock:
    """Seconds, moved by hand."""

    now = 0.0

    def __call__(self):
        return self.now


def source(name, **schema):
    parameters = canonical_parameters({"properties": {"x": schema or {"type": "null"}}})
    key = grammar_key.grammar_key(grammar_key.tool_hash(name, parameters), **PARTS)
    return GrammarSource(key=key, name=name, parameters=parameters)


def registry_over(ranks, bench, clock, blob_cache_bytes=2**20):
    return GrammarRegistry(
        worker_rpc.WorkerRpc(ranks),
        bench,
        **PARTS,
        capacity=2,
        blob_cache_bytes=blob_cache_bytes,
        clock=clock,
    )
