"""Grammar stores without an engine, for benchmarks of the grammar registry."""

from collections.abc import Sequence
from typing import Any

from toolgate_backend.grammars import store
from toolgate_backend.grammars.engines.xgrammar_engine import XGrammarEngine
from toolgate_backend.grammars.registry import Examiner, GrammarRegistry
from toolgate_backend.grammars.worker_rpc import WorkerRpc
from toolgate_backend.settings import Settings
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core.wire import GrammarSource, GrammarVerdict


def key_parts(vocabulary: Vocabulary) -> dict[str, str]:
    """The arguments of `grammar_key` that depend on the backend."""
    return {
        "dialect": vocabulary.dialect.name,
        "tokenizer": vocabulary.fingerprint,
        "grammar_format": store.grammar_format(),
    }


class LocalWorkers:
    """The grammar store of one rank, called like `collective_rpc`."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.store = store.GrammarStore(vocabulary)

    async def __call__(self, method: str, args: Sequence[Any] = ()) -> list[Any]:
        store.install(self.store)
        methods: dict[str, Any] = dict(store.WORKER_METHODS)
        return [methods[method](None, *args)]

    @property
    def xgrammar(self) -> Any:
        """xgrammar's own compiler, which has the cache of rules."""
        engine = self.store._compiler._xgrammar
        assert isinstance(engine, XGrammarEngine)
        return engine._compiler

    def wait_until_warm(self) -> None:
        self.store.cache_warmed.result()


class NoExaminer:
    """For schemas that were all examined."""

    async def examine(self, source: GrammarSource) -> GrammarVerdict:
        raise NotImplementedError


def local_registry(
    workers: LocalWorkers, vocabulary: Vocabulary, quarantine: Examiner | None = None
) -> GrammarRegistry:
    """A registry with the default limits. `quarantine`: None if all schemas were examined."""
    configured, parts = Settings(), key_parts(vocabulary)
    return GrammarRegistry(
        WorkerRpc(workers),
        quarantine or NoExaminer(),
        dialect=parts["dialect"],
        tokenizer=parts["tokenizer"],
        grammar_format=parts["grammar_format"],
        capacity=configured.max_grammars,
        blob_cache_bytes=configured.blob_bytes,
    )
