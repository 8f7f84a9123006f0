"""Answers of backends that are kept, and used again for the same message: a response cache.

An answer is what a backend sent. It is read like one that just arrives: it gets ids of its own, and
its calls are checked again. Its name stands for the model and for everything that the backend got,
the schemas included, so that it is never the answer to another request.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Protocol

from pydantic import ValidationError

from toolgate_core import wire

from ..backend_client.event_stream import EventStream
from .response import fingerprint

PER_REQUEST = {"request_id", "stream", "priority"}
"""Fields of a message on which the answer does not depend."""


class Store(Protocol):
    async def get(self, name: str) -> bytes | None: ...

    def put(self, name: str, data: bytes) -> None:
        """Keep an answer, in the background."""


class Source(Protocol):
    """The events of an answer, in batches."""

    @property
    def deadline(self) -> float | None:
        """Time (time.monotonic) by which the answer, and what continues it, must end."""

    def __aiter__(self) -> AsyncIterator[list[wire.StreamEvent]]: ...

    async def aclose(self) -> None: ...


class Answers:
    """Those to one request. They are kept if it succeeds without sampling a choice again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._noted: list[tuple[str, NotedAnswer]] = []

    async def find(self, name: str) -> KeptAnswer | None:
        data = await self._store.get(name)
        try:
            return None if data is None else KeptAnswer(wire.stream_events.validate_json(data))
        except ValidationError:  # of another release
            return None

    def noting(self, name: str, answer: EventStream) -> NotedAnswer:
        """Return the same events, and note them."""
        noted = NotedAnswer(answer)
        self._noted.append((name, noted))
        return noted

    def forget(self) -> None:
        """Forget what was noted: the request begins anew."""
        self._noted.clear()

    def keep(self) -> None:
        for name, noted in self._noted:
            self._store.put(name, wire.stream_events.dump_json(noted.events))
        self.forget()


class KeptAnswer:
    deadline: float | None = None

    def __init__(self, events: list[wire.StreamEvent]) -> None:
        self._batches = _at_once(events)

    def __aiter__(self) -> AsyncIterator[list[wire.StreamEvent]]:
        return self._batches

    async def aclose(self) -> None:
        await self._batches.aclose()


class NotedAnswer:
    def __init__(self, answer: EventStream) -> None:
        self._answer = answer
        self._batches = self._noting()
        self.events: list[wire.StreamEvent] = []

    @property
    def deadline(self) -> float | None:
        return self._answer.deadline

    def __aiter__(self) -> AsyncIterator[list[wire.StreamEvent]]:
        return self._batches

    async def aclose(self) -> None:
        await self._batches.aclose()
        await self._answer.aclose()

    async def _noting(self) -> AsyncGenerator[list[wire.StreamEvent], None]:
        async with aclosing(self._answer) as batches:
            async for batch in batches:
                self.events += batch
                yield batch


def name_of(message: wire.GenerateRequest, info: wire.Info) -> str:
    """Return the name of the answer to a message. `info`: of the backend."""
    enforcement = message.enforcement
    if enforcement is not None and message.sampling.seed is None:
        enforcement = enforcement.model_copy(update={"id_seed": ""})  # it is random
    asked = message.model_copy(update={"enforcement": enforcement})
    text = f"{fingerprint(info)}\0{asked.model_dump_json(exclude=PER_REQUEST)}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


async def _at_once(
    events: list[wire.StreamEvent],
) -> AsyncGenerator[list[wire.StreamEvent], None]:
    yield events
