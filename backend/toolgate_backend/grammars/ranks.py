"""The engine's workers, seen from the API process: load grammars on every rank, and wait for all.

Each RPC is answered between two steps of the engine, and takes a moment of that step loop: what is
asked while one is under way goes with the next, and one poll asks for all that are awaited.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from toolgate_core import keys
from toolgate_core.wire import GrammarSource, GrammarVerdict

from .. import metrics

POLL_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02)
"""Waits between polls; the last one repeats."""

Rpc = Callable[..., Awaitable[Sequence[Any]]]
"""vLLM's `collective_rpc(method, args=…)`: one answer a rank."""


class Ranks:
    def __init__(self, rpc: Rpc) -> None:
        self._rpc = rpc
        self._holder = uuid.uuid4().hex
        self._unsent: dict[str, str] = {}
        self._awaited: dict[str, asyncio.Future[GrammarVerdict]] = {}
        self._blobs: set[str] = set()
        self._working: asyncio.Task[None] | None = None

    async def load(self, source: GrammarSource) -> GrammarVerdict:
        """The verdict that every rank has come to; a refusal on one is a refusal."""
        text = {
            "name": source.name,
            "parameters": keys.canonical_json(source.parameters),
            "blob": source.blob,
            "rewritten": source.rewritten,
            "residual": [keyword.model_dump() for keyword in source.residual],
        }
        self._unsent[source.key] = json.dumps(text)
        if source.blob is not None:
            self._blobs.add(source.key)
        verdict: asyncio.Future[GrammarVerdict] = asyncio.get_running_loop().create_future()
        self._awaited[source.key] = verdict
        if self._working is None:
            self._working = asyncio.create_task(self._work())
        return await verdict

    async def release(self, wanted: Sequence[str]) -> None:
        await self._rpc("toolgate_release", args=(self._holder, list(wanted)))

    async def _work(self) -> None:
        """Send and poll until nobody waits."""
        try:
            attempt = 0
            while self._awaited:
                if self._unsent:
                    unsent, self._unsent = self._unsent, {}
                    await self._rpc("toolgate_load", args=(self._holder, unsent))
                    attempt = 0
                if await self._poll():
                    attempt = 0
                await asyncio.sleep(POLL_SECONDS[min(attempt, len(POLL_SECONDS) - 1)])
                attempt += 1
        except Exception as error:  # noqa: BLE001 - the engine's, and all who wait on it must hear
            for verdict in self._awaited.values():
                if not verdict.done():
                    verdict.set_exception(error)
            self._awaited.clear()
            self._unsent.clear()
        finally:
            self._working = None

    async def _poll(self) -> bool:
        """Settle what every rank has a verdict on; whether there was any."""
        awaited = [key for key in self._awaited if key not in self._unsent]
        answers = await self._rpc("toolgate_verdicts", args=(awaited,))
        by_key: dict[str, list[GrammarVerdict]] = {}
        for rank in answers:
            for text in rank:
                verdict = GrammarVerdict.model_validate_json(text)
                by_key.setdefault(verdict.key, []).append(verdict)
        settled = {key: found for key, found in by_key.items() if len(found) == len(answers)}
        for key, found in settled.items():
            self._settle(key, found)
        return bool(settled)

    def _settle(self, key: str, found: list[GrammarVerdict]) -> None:
        verdict = next((v for v in found if v.status == "refused"), found[0])
        self._count(key, verdict, found)
        waiting = self._awaited.pop(key)
        if not waiting.done():
            waiting.set_result(verdict)

    def _count(self, key: str, verdict: GrammarVerdict, found: list[GrammarVerdict]) -> None:
        compiled = [v for v in found if v.compile_ms is not None]
        if key in self._blobs:
            self._blobs.discard(key)
            if compiled:
                metrics.BLOB_REJECTS.inc()
        for one in compiled:
            metrics.compiled(one, place="worker")
        if verdict.status == "ready":
            metrics.GRAMMAR_LOADS.labels("compiled" if compiled else "blob").inc()
