"""Grammars that a backend is not known to hold: fleet record → else its compiler → new record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from toolgate_core import wire
from toolgate_core.errors import BackendFailed

from ..backend_client.client import Backend
from ..context import Tier
from . import metrics
from .redis_cache import Claim, RedisCache
from .sealed_record import GrammarRecord

FIRST_POLL = 0.01
LONGEST_POLL = 0.1
"""Seconds between looks at what another gateway is having compiled."""


@dataclass(frozen=True)
class Found:
    """What became of one grammar, and where it was found."""

    verdict: wire.GrammarVerdict
    tier: Tier


class Loader:
    """Loads into one backend. Without a fleet, every grammar is the backend's to compile."""

    def __init__(self, backend: Backend, fleet: RedisCache | None, patience: float) -> None:
        """`patience`: seconds to wait for another gateway's compile before doing it again."""
        self._backend = backend
        self._fleet = fleet
        self._patience = patience

    async def load(self, sources: Sequence[wire.GrammarSource]) -> dict[str, Found]:
        """By key; every source has a verdict. Raises what keeps the backend from answering."""
        if self._fleet is None:
            return _compiled(await self._ask(sources))
        records = await self._fleet.find([source.key for source in sources])
        old = [source for source in sources if source.key in records]
        new = [source for source in sources if source.key not in records]
        known, compiled = await asyncio.gather(
            self._reload(old, records), self._compile_once(self._fleet, new)
        )
        return known | compiled

    async def load_beside(self, sources: Sequence[wire.GrammarSource]) -> dict[str, Found]:
        """What this gateway is having loaded already, in one batch with others. The backend works
        on each grammar once, whoever asks."""
        return _compiled(await self._ask(sources))

    async def _reload(
        self, sources: Iterable[wire.GrammarSource], records: Mapping[str, GrammarRecord]
    ) -> dict[str, Found]:
        """A schema that the fleet knows to be refused is not even sent."""
        verdicts: list[wire.GrammarVerdict] = []
        ready: list[wire.GrammarSource] = []
        for source in sources:
            verdict = records[source.key].verdict
            if verdict.status == "refused":
                verdicts.append(verdict)
            else:
                ready.append(source.after(verdict))
        return _found([*verdicts, *await self._ask(ready)], "redis")

    async def _compile_once(
        self, fleet: RedisCache, sources: Sequence[wire.GrammarSource]
    ) -> dict[str, Found]:
        """What no other gateway is compiling is compiled here; the rest is waited for, and taken
        over where the other one dies. Nobody waits while holding locks, so nobody waits forever."""
        found: dict[str, Found] = {}
        waiting = {source.key: source for source in sources}
        give_up, pause = time.monotonic() + self._patience, FIRST_POLL
        while waiting:
            claim = await fleet.claim(list(waiting))
            if time.monotonic() > give_up:
                claim = Claim(claim.token, tuple(set(waiting) - set(claim.found)), claim.found)
            told = [waiting.pop(key) for key in claim.found]
            mine = [waiting.pop(key) for key in claim.won]
            found |= await self._compile(fleet, claim, mine)
            found |= await self._reload(told, claim.found)
            if waiting:
                if pause == FIRST_POLL:
                    metrics.WAITS.labels("fleet").inc(len(waiting))
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, LONGEST_POLL)
        return found

    async def _compile(
        self, fleet: RedisCache, claim: Claim, sources: Sequence[wire.GrammarSource]
    ) -> dict[str, Found]:
        async with fleet.holding(claim):
            verdicts = await self._ask(sources, want_blobs=True)
            claim.results += [
                GrammarRecord(name=source.name, parameters=source.parameters, verdict=verdict)
                for source, verdict in zip(sources, verdicts, strict=True)
            ]
        return _compiled(verdicts)

    async def _ask(
        self, sources: Sequence[wire.GrammarSource], *, want_blobs: bool = False
    ) -> list[wire.GrammarVerdict]:
        """One verdict for each source, in their order."""
        if not sources:
            return []
        answer = await self._backend.load_grammars(sources, want_blobs=want_blobs)
        verdicts = {verdict.key: verdict for verdict in answer}
        if any(source.key not in verdicts for source in sources):
            raise BackendFailed("The backend left grammars without a verdict.")
        return [verdicts[source.key] for source in sources]


def _found(verdicts: Iterable[wire.GrammarVerdict], tier: Tier) -> dict[str, Found]:
    return {verdict.key: Found(verdict, tier) for verdict in verdicts}


def _compiled(verdicts: Sequence[wire.GrammarVerdict]) -> dict[str, Found]:
    for verdict in verdicts:
        if verdict.status == "refused":
            metrics.REFUSED.labels(verdict.code or "schema_not_enforceable").inc()
        elif verdict.compile_ms is not None:
            metrics.COMPILE_SECONDS.labels(verdict.engine or "?").observe(verdict.compile_ms / 1000)
    return _found(verdicts, "compiled")
