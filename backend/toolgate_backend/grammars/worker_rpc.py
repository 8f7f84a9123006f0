"""RPCs from the API process to the engine's workers: load grammars on every rank and wait for all.

The engine processes RPCs between two steps, all pending ones at a time, which delays the step loop
a little. Grammars that are requested in one turn of the event loop are therefore sent together, and
one poll requests all pending verdicts.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from toolgate_core.errors import SchemaTooComplex
from toolgate_core.schema.canonical import canonical_json
from toolgate_core.wire import GrammarSource, GrammarVerdict

from . import metrics

POLL_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02)
"""Waits between polls; the last one repeats."""

Rpc = Callable[..., Awaitable[Sequence[Any]]]
"""A call `(method, args=…)`, which returns one result for each rank of all engines."""


class WorkerRpc:
    def __init__(self, rpc: Rpc) -> None:
        self._rpc = rpc
        self._owner = uuid.uuid4().hex
        self._unsent: dict[str, str] = {}
        self._sent: set[str] = set()
        self._pending: dict[str, asyncio.Future[GrammarVerdict]] = {}
        self._blobs: set[str] = set()
        self._sending: set[asyncio.Task[None]] = set()
        self._polling: asyncio.Task[None] | None = None

    async def load(self, source: GrammarSource) -> GrammarVerdict:
        """Return the common verdict of all ranks. It is a refusal if one rank refuses."""
        self._unsent[source.key] = source_text(source)
        if source.examined is not None and source.examined.blob is not None:
            self._blobs.add(source.key)
        verdict: asyncio.Future[GrammarVerdict] = asyncio.get_running_loop().create_future()
        self._pending[source.key] = verdict
        if len(self._unsent) == 1:
            task = asyncio.create_task(self._send())
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        return await verdict

    async def release(self, wanted: Sequence[str]) -> None:
        await self._rpc("toolgate_release", args=(self._owner, list(wanted)))

    async def _send(self) -> None:
        unsent, self._unsent = self._unsent, {}
        try:
            await self._rpc("toolgate_load", args=(self._owner, unsent))
        except Exception as error:  # noqa: BLE001 - passed on to all waiting callers
            self._fail(unsent, error)
            return
        self._sent.update(unsent)
        if self._polling is None:
            self._polling = asyncio.create_task(self._poll_until_settled())

    async def _poll_until_settled(self) -> None:
        attempt = 0
        try:
            while self._sent:
                await asyncio.sleep(POLL_SECONDS[min(attempt, len(POLL_SECONDS) - 1)])
                attempt = 0 if await self._poll() else attempt + 1
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(self._sent, error)
            self._sent.clear()
        finally:
            self._polling = None

    async def _poll(self) -> bool:
        """Set the verdicts that every rank has reached. Return whether there were any."""
        results = await self._rpc("toolgate_verdicts", args=(sorted(self._sent),))
        by_key: dict[str, list[GrammarVerdict]] = {}
        for rank in results:
            for text in rank:
                verdict = GrammarVerdict.model_validate_json(text)
                by_key.setdefault(verdict.key, []).append(verdict)
        settled = {key: ranks for key, ranks in by_key.items() if len(ranks) == len(results)}
        for key, verdicts in settled.items():
            self._settle(key, verdicts)
        return bool(settled)

    def _fail(self, wanted: Iterable[str], error: Exception) -> None:
        for key in wanted:
            future = self._pending.pop(key)
            if not future.done():
                future.set_exception(error)
                future.exception()  # the caller may be gone, which is no error of asyncio's

    def _settle(self, key: str, verdicts: list[GrammarVerdict]) -> None:
        verdict = next((v for v in verdicts if v.status == "refused"), verdicts[0])
        self._count(key, verdict, verdicts)
        self._sent.discard(key)
        future = self._pending.pop(key)
        if not future.done():
            future.set_result(verdict)

    def _count(self, key: str, verdict: GrammarVerdict, verdicts: list[GrammarVerdict]) -> None:
        compiled = [v for v in verdicts if v.compile_ms is not None]
        if key in self._blobs:
            self._blobs.discard(key)
            if compiled:
                metrics.BLOB_REJECTS.inc()
        for compilation in compiled:
            metrics.compiled(compilation, place="worker")
        if verdict.code == SchemaTooComplex.code:
            metrics.ABANDONED_LOADS.inc()
        if verdict.status == "ready":
            metrics.GRAMMAR_LOADS.labels("compiled" if compiled else "blob").inc()


def source_text(source: GrammarSource) -> str:
    """Return a source as a worker's store loads it."""
    examined = source.examined
    return json.dumps(
        {
            "name": source.name,
            "parameters": canonical_json(source.parameters),
            "examined": examined.model_dump(exclude_none=True) if examined else None,
        }
    )
