"""Which grammars the workers hold, seen from one API process, which decides what they keep.

A grammar's way in: limits on its schema → quarantine (unless the fleet has seen it compiled) → the
workers, from a blob if there is one that pays. LRU by key over all that no request is using.
Refusals are kept too: a bad schema is compiled once.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from toolgate_core import grammar_key
from toolgate_core.errors import (
    BackendUnavailable,
    GrammarUnknown,
    InvalidRequest,
    SchemaNotEnforceable,
    SchemaTooComplex,
)
from toolgate_core.schema.limits import SchemaLimits, check_limits
from toolgate_core.wire import GrammarSource, GrammarVerdict

from ..errors import QuarantineDown
from . import metrics
from .worker_rpc import WorkerRpc

RETRY_SECONDS = 2
LIMIT_SECONDS = 60.0
"""A schema whose compile took too much time or memory is tried again after so long: it may have met
a busy machine."""


class Examiner(Protocol):
    """What stands between an unknown schema and the workers (quarantine.py)."""

    async def examine(self, source: GrammarSource) -> GrammarVerdict: ...


class GrammarRegistry:
    def __init__(
        self,
        ranks: WorkerRpc,
        quarantine: Examiner,
        *,
        dialect: str,
        tokenizer: str,
        grammar_format: str,
        capacity: int,
        schema_limits: SchemaLimits,
        blob_cache_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ranks = ranks
        self._quarantine = quarantine
        self._key_parts = {
            "dialect": dialect,
            "tokenizer": tokenizer,
            "grammar_format": grammar_format,
        }
        self._capacity = capacity
        self._schema_limits = schema_limits
        self._verdicts: OrderedDict[str, GrammarVerdict] = OrderedDict()
        self._doubts: dict[str, float] = {}
        """When to try again what was refused for its cost, by the clock."""
        self._clock = clock
        self._blobs = _Blobs(blob_cache_bytes)
        self._loading: dict[str, asyncio.Task[None]] = {}
        self._pinned: Counter[str] = Counter()

    @property
    def pinned(self) -> int:
        return len(self._pinned)

    async def load(
        self, sources: Sequence[GrammarSource], *, want_blobs: bool = False
    ) -> list[GrammarVerdict]:
        """Load what is new on every rank, once a key however many ask at once.

        Raises InvalidRequest for a key that is not its content's, BackendUnavailable when the
        quarantine could not be asked.
        """
        refused: dict[str, GrammarVerdict] = {}
        for source in sources:
            over = self._over_limits(source)
            if over is not None:
                refused[source.key] = over
            else:
                self._check_key(source)
        wanted = {s.key: s for s in sources if s.key not in refused}
        with self._held(wanted):  # what is there must not leave while the rest comes
            await self._bring_all(wanted)
            verdicts = refused | {key: self._verdicts[key] for key in wanted}
            await self._evict()
        if want_blobs:
            verdicts = {key: self._blobs.attach(verdict) for key, verdict in verdicts.items()}
        return [verdicts[source.key] for source in sources]

    async def _bring_all(self, wanted: Mapping[str, GrammarSource]) -> None:
        for key, source in wanted.items():
            if (key not in self._verdicts or self._doubtful(key)) and key not in self._loading:
                # A task of its own: it outlives a client that goes away, others may wait on it.
                self._loading[key] = asyncio.create_task(self._bring(source))
        waits = [self._loading[key] for key in wanted if key in self._loading]
        # All of them, whatever becomes of one: what is asked for again is then there.
        outcomes = await asyncio.shield(asyncio.gather(*waits, return_exceptions=True))
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    def _doubtful(self, key: str) -> bool:
        return key in self._doubts and self._doubts[key] <= self._clock()

    @contextmanager
    def pin(self, wanted: Sequence[str]) -> Iterator[None]:
        """Keep these grammars loaded for a request. Raises GrammarUnknown with those that are not,
        SchemaNotEnforceable when one was refused."""
        missing = [key for key in wanted if key not in self._verdicts]
        if missing:
            raise GrammarUnknown(missing)
        with self._held(wanted):
            for key in wanted:
                self._verdicts.move_to_end(key)
            yield

    @contextmanager
    def _held(self, wanted: Collection[str]) -> Iterator[None]:
        self._pinned.update(list(wanted))
        try:
            yield
        finally:
            self._pinned.subtract(list(wanted))
            self._pinned += Counter()  # drops the zeros

    def least_tokens(self, key: str) -> int:
        """Of a call's body by this grammar, one that is held; 0 where it is not known."""
        return self._verdicts[key].least_tokens or 0

    def require_ready(self, wanted: Sequence[str]) -> None:
        for key in wanted:
            verdict = self._verdicts[key]
            if verdict.status == "refused":
                complex_ = verdict.code == SchemaTooComplex.code
                raise (SchemaTooComplex if complex_ else SchemaNotEnforceable)(
                    f"This schema cannot be enforced: {verdict.reason}.",
                    pointer=verdict.pointer or "",
                    param="tools",
                )

    def _check_key(self, source: GrammarSource) -> None:
        """A key is recomputed, never believed: it decides whose grammar a later request gets."""
        expected = grammar_key.grammar_key(
            grammar_key.tool_hash(source.name, source.parameters), **self._key_parts
        )
        if source.key != expected:
            raise InvalidRequest("A grammar's key does not match its content.", param="grammars")

    def _over_limits(self, source: GrammarSource) -> GrammarVerdict | None:
        """Not remembered: the key has not been checked, which takes a schema within limits."""
        try:
            check_limits(source.parameters, self._schema_limits, param="grammars")
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

    async def _bring(self, source: GrammarSource) -> None:
        """To a verdict on one key, which is then in `_verdicts`."""
        try:
            verdict = await self._verdict(source)
            if verdict.status == "refused":
                metrics.SCHEMA_REFUSALS.labels(verdict.code or "unknown").inc()
            self._doubts.pop(source.key, None)
            if verdict.code == SchemaTooComplex.code:
                self._doubts[source.key] = self._clock() + LIMIT_SECONDS
            self._blobs.put(verdict)
            self._verdicts[source.key] = verdict.model_copy(update={"blob": None})
        finally:
            del self._loading[source.key]

    async def _verdict(self, source: GrammarSource) -> GrammarVerdict:
        if source.examined:
            return await self._ranks.load(source)
        try:
            examined = await self._quarantine.examine(source)
        except QuarantineDown as error:
            raise BackendUnavailable(
                "New tool schemas can't be examined at the moment; send the request again.",
                retry_after=RETRY_SECONDS,
            ) from error
        if examined.status == "refused":
            return examined
        loaded = await self._ranks.load(source.after(examined))
        # The quarantine's figures: those of a process that had not seen the schema.
        return examined if loaded.status == "ready" else loaded

    async def _evict(self) -> None:
        # What is being loaded again has its old verdict yet: released now, it would get no other.
        kept = self._pinned.keys() | self._loading.keys()
        idle = [key for key in self._verdicts if key not in kept]
        surplus = idle[: max(0, len(self._verdicts) - self._capacity)]
        for key in surplus:
            del self._verdicts[key]
            self._doubts.pop(key, None)
        ready = sum(verdict.status == "ready" for verdict in self._verdicts.values())
        metrics.LOADED_GRAMMARS.set(ready)
        if surplus:
            await self._ranks.release(surplus)


class _Blobs:
    """Blobs given out again to a fleet that lost them: the newest, up to so many bytes."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._held: OrderedDict[str, str] = OrderedDict()
        self._bytes = 0

    def put(self, verdict: GrammarVerdict) -> None:
        if verdict.blob is None or verdict.key in self._held:
            return
        self._held[verdict.key] = verdict.blob
        self._bytes += len(verdict.blob)
        while self._bytes > self._capacity:
            _, dropped = self._held.popitem(last=False)
            self._bytes -= len(dropped)

    def attach(self, verdict: GrammarVerdict) -> GrammarVerdict:
        return verdict.model_copy(update={"blob": self._held.get(verdict.key)})
