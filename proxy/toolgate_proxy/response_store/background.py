"""Responses that are generated in the background, without a client that waits for them.

The record of such a response is stored when it is queued, and replaced when it begins and ends. The
process that generates it has a lease. A record without one that has not ended is that of a process
that died: whoever reads it stores that it failed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Literal

from .. import metrics
from ..background import in_background
from ..sealing import SealBroken, Sealer
from ..settings import Settings
from . import sealed_store
from .live import LiveResponse, LiveResponses
from .record import (
    INFLATED,
    STOPPED,
    EventLog,
    Json,
    RecordTooLarge,
    StoredResponse,
    cancelled,
    failed,
    gateway_stopped,
    is_active,
    open_record,
    sealed,
)
from .sealed_store import Lease, NotStored, SealedStore, StoreUnavailable

PATIENCE = 60.0
"""Seconds for which the end of a response is kept while Redis does not respond."""
PAUSE = 1.0
Replaced = NotStored | Literal["changed"] | None


class BackgroundStore:
    """Those of all processes in the store, and those that this process generates."""

    def __init__(
        self, store: SealedStore, sealer: Sealer, settings: Settings, live: LiveResponses
    ) -> None:
        self._store = store
        self._sealer = sealer
        self._max_bytes = settings.max_body_bytes
        self.live = live
        self.running: dict[tuple[str, str], BackgroundResponse] = {}
        """By owner and ID."""

    def lease(self, owner: str, response_id: str) -> Lease:
        return Lease(self._store, owner, response_id)

    async def put(self, owner: str, response: StoredResponse) -> tuple[NotStored | None, bytes]:
        """Store a response. Return why it was not stored, and its record."""
        made = await sealed(self._sealer, owner, response, None)
        reason = await self._store.put(owner, made)
        metrics.RESPONSES_STORED.labels(reason or "stored").inc()
        return reason, made.record

    async def replace(
        self, owner: str, response: StoredResponse, log: EventLog | None, former: bytes
    ) -> tuple[Replaced, bytes]:
        """Store a response in place of the record `former`, without events if they are too large.
        Return why it was not stored, and its record."""
        made = await sealed(self._sealer, owner, response, log)
        reason = await self._store.replace(owner, made, former)
        if reason == "too_large" and made.events:
            reason = await self._store.replace(owner, replace(made, events=b""), former)
        return reason, made.record

    async def read(self, owner: str, response_id: str) -> tuple[StoredResponse, bytes] | None:
        """Return a response and its record. Raises StoreUnavailable."""
        found = await self._store.read(owner, response_id, most=1, size=self._max_bytes)
        if not found:
            return None
        most = INFLATED * self._max_bytes
        try:
            return open_record(self._sealer, owner, response_id, found[0], most)[0], found[0]
        except (SealBroken, RecordTooLarge):
            metrics.RESPONSES_BROKEN.inc()
            return None

    async def settled(self, owner: str, response_id: str) -> StoredResponse | None:
        """Return a response that had not ended when it was read. It has failed if the process that
        generated it is gone. Raises StoreUnavailable."""
        lease = self.lease(owner, response_id)
        if not await lease.take():
            found = await self.read(owner, response_id)
            return None if found is None else found[0]
        try:
            return await self._end(owner, response_id, gateway_stopped)
        finally:
            await lease.release()

    async def cancel(self, owner: str, response_id: str) -> StoredResponse | None:
        """Cancel a response that has not ended, wherever it is generated. Return the response.
        Raises StoreUnavailable."""
        running = self.running.get((owner, response_id))
        log = running.live.log if running is not None and running.live is not None else None
        response = await self._end(owner, response_id, cancelled, log)
        is_cancelled = response is not None and response.body["status"] == "cancelled"
        if running is not None and response is not None and is_cancelled:
            running.supersede(response.body)
        return response

    async def aclose(self) -> None:
        """Give up the responses that this process generates."""
        for running in [*self.running.values()]:
            await running.abandon()

    async def _end(
        self,
        owner: str,
        response_id: str,
        change: Callable[[Json], Json],
        log: EventLog | None = None,
    ) -> StoredResponse | None:
        """Change a response that has not ended. Return it as it is stored then."""
        while (found := await self.read(owner, response_id)) is not None:
            response, record = found
            if not is_active(response):
                return response
            ended = replace(response, body=change(response.body))
            reason, _ = await self.replace(owner, ended, log, record)
            if reason is None:
                return ended
            if reason != "changed":
                raise StoreUnavailable("Redis does not respond or refuses the write")
        return None


class BackgroundResponse:
    """A response that this process generates. A request that fails before it is queued has none:
    `queued` is None then."""

    def __init__(self, store: BackgroundStore) -> None:
        self._store = store
        self._owner = ""
        self._response: StoredResponse | None = None
        """As it is stored."""
        self._record = b""
        self._lease: Lease | None = None
        self._watching: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()
        self._ended = False
        self.live: LiveResponse | None = None
        self.queued: asyncio.Future[Json | None] = asyncio.get_running_loop().create_future()
        """The response object, once it is stored."""
        self.stopped = asyncio.Event()
        """Set when the generation must end."""

    @property
    def created(self) -> int | None:
        """Seconds since 1970."""
        return None if self._response is None else self._response.created

    async def queue(self, owner: str, response: StoredResponse) -> NotStored | None:
        """Store a response before it is generated. Does nothing if the request goes on to another
        model. Return why it was not stored. Raises StoreUnavailable."""
        if self._response is not None:
            return None
        lease = self._store.lease(owner, response.id)
        if not await lease.take():
            return "exists"
        reason, self._record = await self._store.put(owner, response)
        if reason is not None:
            await lease.release()
            return reason
        self._owner, self._response, self._lease = owner, response, lease
        self.live = self._store.live.begin(
            owner, response.body, lambda: self._response or response, started=False
        )
        self._store.running[owner, response.id] = self
        self._watching = asyncio.create_task(self._watch())
        self.queued.set_result(response.body)
        return None

    def start(self, response: StoredResponse) -> LiveResponse | None:
        """Note that the first events are there. `response`: with the object before them."""
        if self.live is not None:
            self.live.restart(response.body)
        self._response = response
        in_background(self._replace(response, None))
        return self.live

    async def finish(self, response: StoredResponse, log: EventLog | None) -> Replaced:
        """Store the response at its end; while Redis does not respond, later. Return why it was not
        stored: `changed` if it was cancelled or deleted elsewhere."""
        until = time.monotonic() + PATIENCE
        while True:
            reason = await self._replace(response, log)
            if reason != "unavailable" or time.monotonic() > until or self.stopped.is_set():
                break
            await asyncio.sleep(PAUSE)
        self._ended = reason is None or reason == "changed"
        return reason

    async def stored_body(self) -> Json | None:
        """Return the response object as it is stored now. Raises StoreUnavailable."""
        current = await self._current()
        return None if current is None else current.body

    def supersede(self, body: Json) -> None:
        """End the generation, because the response has ended otherwise: as `body`."""
        self._ended = True
        self._end_live(body)
        self.stopped.set()

    async def abandon(self) -> None:
        """End the generation, and leave the response to whoever reads it next."""
        self._ended = True
        self.stopped.set()
        await self._release()

    async def close(self, error: Mapping[str, object] | None) -> None:
        """End the response after its generation, as failed if it was not stored. `error`: the error
        object, if the generation failed before the first event."""
        if not self.queued.done():
            self.queued.set_result(None)
        if self._response is None:
            return
        try:
            if not self._ended:
                await self._fail(error or STOPPED)
        finally:
            # If it was abandoned before its first event, its readers still wait for one.
            self._end_live(gateway_stopped(self._response.body))
            await self._release()

    async def _fail(self, error: Mapping[str, object]) -> None:
        assert self._response is not None
        last = None if self.live is None else self.live.last
        if last is None:
            body, log = failed(self._response.body, error), None
        else:
            body = last["response"]
            log = None if self.live is None else self.live.log
        if await self.finish(replace(self._response, body=body), log) == "too_large":
            body = failed(self._response.body, body["error"])
            await self.finish(replace(self._response, body=body), None)
        self._end_live(body)

    def _end_live(self, body: Json) -> None:
        if self.live is not None and self.live.last is None:
            self.live.end({"type": "response.failed", "response": body})

    async def _release(self) -> None:
        assert self._response is not None
        self._store.running.pop((self._owner, self._response.id), None)
        if self._watching is not None:
            self._watching.cancel()
        if self._lease is not None:
            await self._lease.release()

    async def _replace(self, response: StoredResponse, log: EventLog | None) -> Replaced:
        async with self._changing:
            if self._ended:
                return "changed"
            reason, record = await self._store.replace(self._owner, response, log, self._record)
            if reason == "changed":
                try:
                    current = await self._current()
                except StoreUnavailable:
                    return "unavailable"
                if current is not None and is_active(current):
                    place = (self._owner, response, log, self._record)
                    reason, record = await self._store.replace(*place)
            if reason is None:
                self._record = record
            return reason

    async def _current(self) -> StoredResponse | None:
        """Return the response as it is stored now. Others only end it, so that the record of one
        that has not ended is ours: Redis' reply to its write was lost. Raises StoreUnavailable."""
        assert self._response is not None
        found = await self._store.read(self._owner, self._response.id)
        if found is None:
            return None
        if is_active(found[0]):
            self._record = found[1]
        return found[0]

    async def _watch(self) -> None:
        """End the generation when the response was cancelled or deleted elsewhere."""
        assert self._response is not None
        while not self._ended:
            await asyncio.sleep(sealed_store.LEASE_SECONDS / 3)
            with suppress(StoreUnavailable):
                async with self._changing:
                    current = await self._current()
                if not self._ended and (current is None or not is_active(current)):
                    self.supersede(
                        gateway_stopped(self._response.body) if current is None else current.body
                    )
