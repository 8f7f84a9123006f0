"""Which grammars the workers hold, seen from one API process, which decides what they keep.

LRU by key over all that no request is using. Refusals are kept too: a bad schema is compiled once.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import uuid
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from toolgate_core import keys
from toolgate_core.errors import GrammarUnknown, InvalidRequest, SchemaNotEnforceable
from toolgate_core.wire import GrammarSource, GrammarVerdict

POLL_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02)
"""Waits between polls; the last one repeats. An RPC is answered between two engine steps."""

Rpc = Callable[..., Awaitable[Sequence[Any]]]
"""vLLM's `collective_rpc(method, args=…)`: one answer a rank."""


class GrammarRegistry:
    def __init__(
        self, rpc: Rpc, *, dialect: str, tokenizer: str, grammar_format: str, capacity: int
    ) -> None:
        self._rpc = rpc
        self._key_parts = {
            "dialect": dialect,
            "tokenizer": tokenizer,
            "grammar_format": grammar_format,
        }
        self._capacity = capacity
        self._holder = uuid.uuid4().hex
        self._verdicts: OrderedDict[str, GrammarVerdict] = OrderedDict()
        self._loading: dict[str, asyncio.Task[None]] = {}
        self._pinned: Counter[str] = Counter()

    @property
    def pinned(self) -> int:
        return len(self._pinned)

    async def load(self, sources: Sequence[GrammarSource]) -> list[GrammarVerdict]:
        """Compile what is new on every rank, one compile a key however many ask at once."""
        for source in sources:
            self._check_key(source)
        new = [s for s in sources if s.key not in self._verdicts and s.key not in self._loading]
        waits = [self._loading[s.key] for s in sources if s.key in self._loading]
        if new:
            # A task of its own: it outlives a client that goes away, others may wait on it.
            compiling = asyncio.create_task(self._compile(new))
            self._loading.update({source.key: compiling for source in new})
            waits.append(compiling)
        for wait in waits:
            await asyncio.shield(wait)
        with self.pin([s.key for s in sources]):
            verdicts = [self._verdicts[source.key] for source in sources]
            await self._evict()
        return verdicts

    @contextmanager
    def pin(self, wanted: Sequence[str]) -> Iterator[None]:
        """Keep these grammars loaded for a request. Raises GrammarUnknown with those that are not,
        SchemaNotEnforceable when one was refused."""
        missing = [key for key in wanted if key not in self._verdicts]
        if missing:
            raise GrammarUnknown(missing)
        self._pinned.update(wanted)
        try:
            for key in wanted:
                self._verdicts.move_to_end(key)
            yield
        finally:
            self._pinned.subtract(wanted)
            self._pinned += Counter()  # drops the zeros

    def require_ready(self, wanted: Sequence[str]) -> None:
        for key in wanted:
            verdict = self._verdicts[key]
            if verdict.status == "refused":
                raise SchemaNotEnforceable(
                    f"This tool's schema cannot be enforced: {verdict.reason}.",
                    pointer=verdict.pointer or "",
                    param="tools",
                )

    def _check_key(self, source: GrammarSource) -> None:
        """A key is recomputed, never believed: it decides whose grammar a later request gets."""
        expected = keys.grammar_key(
            keys.tool_hash(source.name, source.parameters), **self._key_parts
        )
        if source.key != expected:
            raise InvalidRequest("A grammar's key does not match its content.", param="grammars")

    async def _compile(self, sources: list[GrammarSource]) -> None:
        try:
            text = json.dumps([source.model_dump() for source in sources])
            await self._rpc("toolgate_load", args=(self._holder, text))
            for verdict in await self._poll([source.key for source in sources]):
                self._verdicts[verdict.key] = verdict
        finally:
            for source in sources:
                self._loading.pop(source.key, None)

    async def _poll(self, wanted: list[str]) -> list[GrammarVerdict]:
        """Wait until every rank has a verdict on every key; a refusal on one rank is a refusal."""
        for attempt in itertools.count():
            ranks = await self._rpc("toolgate_verdicts", args=(wanted,))
            parsed = [[GrammarVerdict.model_validate_json(v) for v in rank] for rank in ranks]
            if all(len(rank) == len(set(wanted)) for rank in parsed):
                merged = {verdict.key: verdict for rank in parsed for verdict in rank}
                merged |= {v.key: v for rank in parsed for v in rank if v.status == "refused"}
                return list(merged.values())
            await asyncio.sleep(POLL_SECONDS[min(attempt, len(POLL_SECONDS) - 1)])
        raise AssertionError  # unreachable: the count has no end

    async def _evict(self) -> None:
        idle = [key for key in self._verdicts if not self._pinned[key]]
        surplus = idle[: max(0, len(self._verdicts) - self._capacity)]
        if surplus:
            for key in surplus:
                del self._verdicts[key]
            await self._rpc("toolgate_release", args=(self._holder, surplus))
