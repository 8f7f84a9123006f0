"""Loading of grammars into one backend: from a record in the shared cache, or by its compiler."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from toolgate_core import wire
from toolgate_core.errors import BackendFailed, SchemaNotEnforceable, SchemaTooComplex

from ..backend_client.client import Backend
from ..backend_client.faults import SAME_RELEASE
from ..grammar_loads import Tier
from . import metrics
from .redis_cache import Claim, RedisCache
from .sealed_record import GrammarRecord

ENGINES = ("xgrammar", "llguidance")
"""Engines with a metric of their own."""
FIRST_POLL = 0.01
LONGEST_POLL = 0.1
"""Seconds between polls for a grammar that another gateway compiles."""


@dataclass(frozen=True)
class GrammarResult:
    """The backend's verdict on one grammar, and the tier that had the grammar."""

    verdict: wire.GrammarVerdict
    tier: Tier


class Loader:
    """Loads grammars into one backend. Without a shared cache, the backend compiles all of them."""

    def __init__(self, backend: Backend, cache: RedisCache | None, max_wait: float) -> None:
        """`max_wait`: seconds to wait for another gateway's compile. Then this one compiles."""
        self._backend = backend
        self._cache = cache
        self._max_wait = max_wait
        self._compiling: Counter[str] = Counter()
        """Keys that this loader has sent to the backend for a compile, under a lock."""

    async def load(self, sources: Sequence[wire.GrammarSource]) -> dict[str, GrammarResult]:
        """Return the result of each source by its key. Raises the backend's errors."""
        if self._cache is None:
            return _compiled(await self._send(sources))
        records = await self._cache.find([source.key for source in sources])
        recorded = [source for source in sources if source.key in records]
        new = [source for source in sources if source.key not in records]
        reloaded, compiled = await asyncio.gather(
            self._reload(recorded, records), self._compile_once(self._cache, new)
        )
        return reloaded | compiled

    async def load_again(self, sources: Sequence[wire.GrammarSource]) -> dict[str, GrammarResult]:
        """Load grammars that a batch of this gateway is loading, too. The backend compiles each
        grammar only once, so those that the batch compiles are sent again, without locks. The batch
        may also wait for another gateway's compile. Those grammars are waited for here."""
        own = [source for source in sources if source.key in self._compiling]
        others = [source for source in sources if source.key not in self._compiling]
        sent, loaded = await asyncio.gather(
            self._send(own), self.load(others) if others else _nothing()
        )
        return _compiled(sent) | loaded

    async def _reload(
        self, sources: Iterable[wire.GrammarSource], records: Mapping[str, GrammarRecord]
    ) -> dict[str, GrammarResult]:
        """Load grammars that have records. Refused schemas are not sent to the backend."""
        verdicts: list[wire.GrammarVerdict] = []
        ready: list[wire.GrammarSource] = []
        for source in sources:
            verdict = records[source.key].verdict
            if verdict.status == "refused":
                verdicts.append(verdict)
            else:
                ready.append(source.after(verdict))
        return _results([*verdicts, *await self._send(ready)], "redis")

    async def _compile_once(
        self, cache: RedisCache, sources: Sequence[wire.GrammarSource]
    ) -> dict[str, GrammarResult]:
        """Compile the grammars that no other gateway compiles, and wait for the others' records.
        If another gateway dies, its lock expires and this one compiles. No gateway waits while it
        has locks, so there is no deadlock."""
        results: dict[str, GrammarResult] = {}
        waiting = {source.key: source for source in sources}
        deadline, pause = time.monotonic() + self._max_wait, FIRST_POLL
        while waiting:
            claim = await cache.claim(list(waiting))
            if time.monotonic() > deadline:
                claim = Claim(claim.token, tuple(set(waiting) - set(claim.records)), claim.records)
            recorded = [waiting.pop(key) for key in claim.records]
            won = [waiting.pop(key) for key in claim.won]
            results |= await self._compile(cache, claim, won)
            results |= await self._reload(recorded, claim.records)
            if waiting:
                if pause == FIRST_POLL:
                    metrics.WAITS.labels("fleet").inc(len(waiting))
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, LONGEST_POLL)
        return results

    async def _compile(
        self, cache: RedisCache, claim: Claim, sources: Sequence[wire.GrammarSource]
    ) -> dict[str, GrammarResult]:
        async with cache.hold_locks(claim):
            self._compiling.update(claim.won)
            try:
                verdicts = await self._send(sources, want_blobs=True)
            finally:
                self._compiling -= Counter(claim.won)
            claim.results += [
                GrammarRecord(name=source.name, parameters=source.parameters, verdict=verdict)
                for source, verdict in zip(sources, verdicts, strict=True)
            ]
        return _compiled(verdicts)

    async def _send(
        self, sources: Sequence[wire.GrammarSource], *, want_blobs: bool = False
    ) -> list[wire.GrammarVerdict]:
        """Send grammars to the backend. Returns their verdicts in the same order."""
        if not sources:
            return []
        response = await self._backend.load_grammars(sources, want_blobs=want_blobs)
        verdicts = {verdict.key: verdict for verdict in response}
        missing = sum(source.key not in verdicts for source in sources)
        if missing:
            raise BackendFailed(
                f"The backend returned no verdict for {missing} of {len(sources)} grammars. "
                f"{SAME_RELEASE}"
            )
        return [verdicts[source.key] for source in sources]


async def _nothing() -> dict[str, GrammarResult]:
    return {}


def _results(verdicts: Iterable[wire.GrammarVerdict], tier: Tier) -> dict[str, GrammarResult]:
    return {verdict.key: GrammarResult(verdict, tier) for verdict in verdicts}


def _compiled(verdicts: Sequence[wire.GrammarVerdict]) -> dict[str, GrammarResult]:
    for verdict in verdicts:
        if verdict.status == "refused":
            too_complex = verdict.code == SchemaTooComplex.code
            code = SchemaTooComplex.code if too_complex else SchemaNotEnforceable.code
            metrics.REFUSED.labels(code).inc()
        elif verdict.compile_ms is not None:
            engine = verdict.engine if verdict.engine in ENGINES else "other"
            metrics.COMPILE_SECONDS.labels(engine).observe(verdict.compile_ms / 1000)
    return _results(verdicts, "compiled")
