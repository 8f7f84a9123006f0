"""The grammars that the engine's workers have loaded, managed by one API process.

The steps for a new grammar are: limits on its schema, compilation in quarantine unless the fleet
has compiled it before, and loading in the workers. Grammars that no request uses are evicted in LRU
order. Refusals are cached as well, so a bad schema is compiled once.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from cachetools import LRUCache

from toolgate_core import grammar_key
from toolgate_core.errors import BackendUnavailable, ChecksFailed, InvalidRequest, SchemaTooComplex
from toolgate_core.killable import JobLimits
from toolgate_core.schema.limits import check_limits
from toolgate_core.wire import GrammarSource, GrammarVerdict

from ..settings import Settings
from ..tokens.vocabulary import Vocabulary
from . import metrics
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
        self._blobs = LRUCache[str, str](blob_cache_bytes, len)
        """Apart from the verdicts, because they are large. For a fleet whose Redis was emptied."""
        self._retry_at: dict[str, float] = {}
        """When to retry schemas that were refused for their cost, by the clock."""
        self._clock = clock
        self._loading: dict[str, asyncio.Task[None]] = {}
        self._pinned: Counter[str] = Counter()

    @property
    def pinned(self) -> int:
        return len(self._pinned)

    @property
    def grammar_format(self) -> str:
        return self._key_parts["grammar_format"]

    async def load(self, sources: Sequence[GrammarSource]) -> list[GrammarVerdict]:
        """Load grammars before a request needs them. Raise what `held` raises."""
        async with self.held({source.key: source.model_copy for source in sources}) as verdicts:
            return [verdicts[source.key] for source in sources]

    @asynccontextmanager
    async def held(
        self, sources: Mapping[str, Callable[[], GrammarSource]]
    ) -> AsyncIterator[dict[str, GrammarVerdict]]:
        """Keep the grammars of a request loaded. Yield their verdicts by key, among them refusals.
        Those that are missing are loaded first on every rank, from what `sources` returns for them;
        once for each key even with concurrent requests.

        Raise InvalidRequest if a key does not match its content, and BackendUnavailable if the
        quarantine is not available."""
        self._pinned.update(list(sources))
        try:
            new = [sources[key]() for key in sources if not self._is_known(key)]
            refused = {each.key: found for each in new if (found := _over_limits(each))}
            if new:
                await self._load([self.checked(each) for each in new if each.key not in refused])
            for key in sources:
                if key not in refused:
                    self._verdicts.move_to_end(key)
            yield {
                key: refused.get(key)
                or self._verdicts[key].model_copy(update={"blob": self._blobs.get(key)})
                for key in sources
            }
        finally:
            self._pinned.subtract(list(sources))
            self._pinned += Counter()  # removes the zeros

    async def _load(self, sources: Sequence[GrammarSource]) -> None:
        for source in sources:
            if source.key not in self._loading:
                # A separate task, because it must outlive a client that disconnects. Others may
                # wait for it.
                self._loading[source.key] = asyncio.create_task(self._load_grammar(source))
        tasks = [self._loading[source.key] for source in sources]
        # Wait for all, even if one fails, so that a retried request finds the others loaded.
        outcomes = await asyncio.shield(asyncio.gather(*tasks, return_exceptions=True))
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        await self._evict()

    def _is_known(self, key: str) -> bool:
        return key in self._verdicts and self._clock() < self._retry_at.get(key, math.inf)

    def checked(self, source: GrammarSource) -> GrammarSource:
        """Return the source. Its key determines which grammar later requests get: raise
        InvalidRequest if it does not match the content."""
        expected = grammar_key.grammar_key(
            grammar_key.tool_hash(source.name, source.parameters), **self._key_parts
        )
        if source.key != expected:
            raise InvalidRequest(
                "A grammar's key does not match its name and schema. Install the same Toolgate "
                "version on the gateway and the backend.",
                param="grammars",
            )
        return source

    async def _load_grammar(self, source: GrammarSource) -> None:
        """Load one grammar and store its verdict in `_verdicts`."""
        try:
            verdict = await self._verdict(source)
            if verdict.status == "refused":
                metrics.SCHEMA_REFUSALS.labels(verdict.code or "unknown").inc()
            self._retry_at.pop(source.key, None)
            if verdict.code == SchemaTooComplex.code:
                self._retry_at[source.key] = self._clock() + COMPLEX_RETRY_SECONDS
            if verdict.blob is not None and len(verdict.blob) <= self._blobs.maxsize:
                self._blobs[verdict.key] = verdict.blob
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
        """Raise BackendUnavailable if a worker failed, which is no verdict on the schema."""
        loaded = await self._worker_rpc.load(source)
        if loaded.code != BackendUnavailable.code:
            return loaded
        await self._worker_rpc.release([source.key])
        raise BackendUnavailable(
            f"The grammar of a tool could not be loaded: {loaded.reason}. Send the request again.",
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


def _over_limits(source: GrammarSource) -> GrammarVerdict | None:
    """Return the refusal of a schema that exceeds the limits. It is not cached, because the key is
    only verified for schemas within them."""
    try:
        check_limits(source.parameters, param="grammars")
    except SchemaTooComplex as error:
        metrics.SCHEMA_REFUSALS.labels(error.code).inc()
        return GrammarVerdict.too_complex(source.key, error.message, error.pointer)
    return None


def _not_compiled() -> BackendUnavailable:
    return BackendUnavailable(
        "New tool schemas cannot be compiled at the moment, because the quarantine process is not "
        "available. Send the request again.",
        retry_after=RETRY_SECONDS,
    )


def make_registry(
    rpc: Rpc, vocabulary: Vocabulary, configured: Settings
) -> tuple[GrammarRegistry, Quarantine]:
    """Return the registry of this API process, and the quarantine in which it examines schemas."""
    limits = JobLimits(CPU_SECONDS, WALL_SECONDS, configured.quarantine_memory_mb * 2**20)
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
