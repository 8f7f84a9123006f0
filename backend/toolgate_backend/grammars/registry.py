"""The grammars that the engine's workers have loaded, managed by one API process.

The steps for a new grammar are: limits on its schema, compilation in quarantine unless the fleet
has compiled it before, and loading in the workers, from a blob if that is cheaper. Grammars that no
request uses are evicted in LRU order. Refusals are cached as well, so a bad schema is compiled
once.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol

from toolgate_core import grammar_key
from toolgate_core.errors import (
    BackendUnavailable,
    ChecksFailed,
    GrammarsRefused,
    InvalidRequest,
    SchemaTooComplex,
)
from toolgate_core.killable import Limits
from toolgate_core.schema.limits import check_limits
from toolgate_core.wire import GrammarSource, GrammarVerdict, InstanceWalks

from ..settings import Settings
from ..tokens.vocabulary import Vocabulary
from . import metrics
from .blob import BlobCache
from .examination import Examined
from .quarantine import CPU_SECONDS, WALL_SECONDS, Quarantine
from .store import grammar_format
from .worker_rpc import Rpc, WorkerRpc

RETRY_SECONDS = 2
COMPLEX_RETRY_SECONDS = 60.0
"""Time after which a schema is tried again whose compile took too much time or memory. The machine
may have been busy."""


class Examiner(Protocol):
    """The check of new schemas before the workers compile them (quarantine.py)."""

    async def examine(self, source: GrammarSource) -> GrammarVerdict: ...

    async def walk(self, source: GrammarSource, instances: Sequence[Any]) -> Examined: ...


class GrammarRegistry:
    def __init__(
        self,
        worker_rpc: WorkerRpc,
        quarantine: Examiner,
        *,
        dialect: str,
        tokenizer: str,
        grammar_format: str,
        capacity: int,
        blob_cache_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._worker_rpc = worker_rpc
        self._quarantine = quarantine
        self._key_parts = {
            "dialect": dialect,
            "tokenizer": tokenizer,
            "grammar_format": grammar_format,
        }
        self._capacity = capacity
        self._verdicts: OrderedDict[str, GrammarVerdict] = OrderedDict()
        self._retry_at: dict[str, float] = {}
        """When to retry schemas that were refused for their cost, by the clock."""
        self._clock = clock
        self._blobs = BlobCache(blob_cache_bytes)
        self._loading: dict[str, asyncio.Task[None]] = {}
        self._pinned: Counter[str] = Counter()

    @property
    def pinned(self) -> int:
        return len(self._pinned)

    @property
    def grammar_format(self) -> str:
        return self._key_parts["grammar_format"]

    async def load(
        self, sources: Sequence[GrammarSource], *, want_blobs: bool = False
    ) -> list[GrammarVerdict]:
        """Load the new grammars on every rank, once for each key even with concurrent calls.

        Raises InvalidRequest if a key does not match its content, and BackendUnavailable if the
        quarantine is not available.
        """
        refused: dict[str, GrammarVerdict] = {}
        for source in sources:
            refusal = self._over_limits(source)
            if refusal is not None:
                refused[source.key] = refusal
            else:
                self._check_key(source)
        accepted = {s.key: s for s in sources if s.key not in refused}
        with self._keep_pinned(accepted):  # loaded grammars must not be evicted while others load
            await self._load_missing(accepted)
            verdicts = refused | {key: self._verdicts[key] for key in accepted}
            await self._evict()
        if want_blobs:
            verdicts = {key: self._blobs.attach(verdict) for key, verdict in verdicts.items()}
        return [verdicts[source.key] for source in sources]

    async def walk(self, source: GrammarSource, instances: Sequence[Any]) -> InstanceWalks:
        """Walk instances through the masks of a tool, which is not loaded. Raises InvalidRequest
        and BackendUnavailable as `load` does."""
        refusal = self._over_limits(source)
        if refusal is not None:
            return InstanceWalks(verdict=refusal)
        self._check_key(source)
        try:
            examined = await self._quarantine.walk(source, instances)
        except ChecksFailed as error:
            raise _not_compiled() from error
        return InstanceWalks(verdict=examined.verdict, walks=examined.walks)

    async def _load_missing(self, sources: Mapping[str, GrammarSource]) -> None:
        for key, source in sources.items():
            if (key not in self._verdicts or self._retry_due(key)) and key not in self._loading:
                # A separate task, because it must outlive a client that disconnects. Others may
                # wait for it.
                self._loading[key] = asyncio.create_task(self._load_grammar(source))
        tasks = [self._loading[key] for key in sources if key in self._loading]
        # Wait for all, even if one fails, so that a retried request finds the others loaded.
        outcomes = await asyncio.shield(asyncio.gather(*tasks, return_exceptions=True))
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    def _retry_due(self, key: str) -> bool:
        return key in self._retry_at and self._retry_at[key] <= self._clock()

    @asynccontextmanager
    async def held(self, sources: Mapping[str, Callable[[], GrammarSource]]) -> AsyncIterator[None]:
        """Keep the grammars of a request loaded, by key. Those that are missing are loaded first,
        from what `sources` returns for them. Raises GrammarsRefused, and what `load` raises."""
        with self._keep_pinned(sources):
            missing = [key for key in sources if key not in self._verdicts or self._retry_due(key)]
            found = await self.load([sources[key]() for key in missing]) if missing else []
            by_key = {verdict.key: verdict for verdict in found}
            refused = list[GrammarVerdict]()
            for key in sources:
                if key in self._verdicts:
                    self._verdicts.move_to_end(key)
                verdict = by_key.get(key) or self._verdicts[key]
                if verdict.status == "refused":
                    refused.append(verdict)
            if refused:
                raise GrammarsRefused([each.model_dump(exclude_none=True) for each in refused])
            yield

    def verdicts(self, keys: Sequence[str]) -> list[GrammarVerdict]:
        """The verdicts on loaded grammars, with their blobs."""
        return [self._blobs.attach(self._verdicts[key]) for key in keys]

    @contextmanager
    def _keep_pinned(self, keys: Collection[str]) -> Iterator[None]:
        self._pinned.update(list(keys))
        try:
            yield
        finally:
            self._pinned.subtract(list(keys))
            self._pinned += Counter()  # removes the zeros

    def least_tokens(self, key: str) -> int | None:
        """The shortest call body of a loaded grammar, in tokens; None if unknown."""
        return self._verdicts[key].least_tokens

    def with_verdict(self, source: GrammarSource) -> GrammarSource:
        """The source of a loaded grammar as the workers loaded it. Raises InvalidRequest if its key
        does not match."""
        self._check_key(source)
        return source.after(self._verdicts[source.key])

    def _check_key(self, source: GrammarSource) -> None:
        """Verify that a key matches its content. The key determines which grammar later requests
        get."""
        expected = grammar_key.grammar_key(
            grammar_key.tool_hash(source.name, source.parameters), **self._key_parts
        )
        if source.key != expected:
            raise InvalidRequest(
                "A grammar's key does not match its name and schema. Install the same Toolgate "
                "version on the gateway and the backend, and no router between them that sorts the "
                "members of a body.",
                param="grammars",
            )

    def _over_limits(self, source: GrammarSource) -> GrammarVerdict | None:
        """Refusals for size are not cached, because the key is only verified for schemas within
        limits."""
        try:
            check_limits(source.parameters, param="grammars")
        except SchemaTooComplex as error:
            metrics.SCHEMA_REFUSALS.labels(error.code).inc()
            return GrammarVerdict(
                key=source.key,
                status="refused",
                reason=error.message,
                pointer=error.pointer,
                code=error.code,
            )
        return None

    async def _load_grammar(self, source: GrammarSource) -> None:
        """Load one grammar and store its verdict in `_verdicts`."""
        try:
            verdict = await self._verdict(source)
            if verdict.status == "refused":
                metrics.SCHEMA_REFUSALS.labels(verdict.code or "unknown").inc()
            self._retry_at.pop(source.key, None)
            if verdict.code == SchemaTooComplex.code:
                self._retry_at[source.key] = self._clock() + COMPLEX_RETRY_SECONDS
            self._blobs.put(verdict)
            self._verdicts[source.key] = verdict.model_copy(update={"blob": None})
        finally:
            del self._loading[source.key]

    async def _verdict(self, source: GrammarSource) -> GrammarVerdict:
        if source.examined:
            return await self._load_in_workers(source)
        try:
            examined = await self._quarantine.examine(source)
        except ChecksFailed as error:
            raise _not_compiled() from error
        if examined.status == "refused":
            return examined
        loaded = await self._load_in_workers(source.after(examined))
        # The measurements are the quarantine's, from a process that had not seen the schema before.
        return examined if loaded.status == "ready" else loaded

    async def _load_in_workers(self, source: GrammarSource) -> GrammarVerdict:
        """Raises BackendUnavailable if a worker failed, which is no verdict on the schema."""
        loaded = await self._worker_rpc.load(source)
        if loaded.code != BackendUnavailable.code:
            return loaded
        await self._worker_rpc.release([source.key])
        raise BackendUnavailable(
            f"The grammar of a tool could not be loaded: {loaded.reason}. Retry the request.",
            retry_after=RETRY_SECONDS,
        )

    async def _evict(self) -> None:
        # A key that is being reloaded still has its old verdict. If it were released now, it would
        # not get a new one.
        kept = self._pinned.keys() | self._loading.keys()
        idle = [key for key in self._verdicts if key not in kept]
        surplus = idle[: max(0, len(self._verdicts) - self._capacity)]
        for key in surplus:
            del self._verdicts[key]
            self._retry_at.pop(key, None)
        ready = sum(verdict.status == "ready" for verdict in self._verdicts.values())
        metrics.LOADED_GRAMMARS.set(ready)
        if surplus:
            await self._worker_rpc.release(surplus)


def _not_compiled() -> BackendUnavailable:
    return BackendUnavailable(
        "New tool schemas cannot be compiled at the moment, because the quarantine process is not "
        "available. Retry the request.",
        retry_after=RETRY_SECONDS,
    )


def make_registry(
    rpc: Rpc, vocabulary: Vocabulary, configured: Settings
) -> tuple[GrammarRegistry, Quarantine]:
    """Return the registry of this API process, and the quarantine in which it examines schemas."""
    limits = Limits(CPU_SECONDS, WALL_SECONDS, configured.quarantine_memory_mb * 2**20)
    quarantine = Quarantine(vocabulary, limits)
    registry = GrammarRegistry(
        WorkerRpc(rpc),
        quarantine,
        dialect=vocabulary.dialect.name,
        tokenizer=vocabulary.fingerprint,
        grammar_format=grammar_format(),
        capacity=configured.max_grammars,
        blob_cache_bytes=configured.blob_bytes,
    )
    return registry, quarantine
