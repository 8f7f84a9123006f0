"""The response to a request, as far as its events have come: what its log event shows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable

from ...api.surface import Stream, Whole
from ...chat.failover import Events
from ...chat.response import ResponseEvent
from ...context import RequestContext


class Collected:
    def __init__(self) -> None:
        self._whole: Callable[[], Whole] | None = None
        self._pieces: list[ResponseEvent] = []

    @property
    def has_begun(self) -> bool:
        """A backend responds."""
        return self._whole is not None

    def begin(self, whole: Callable[[], Whole]) -> None:
        """`whole` makes the response, to which the events are added."""
        self._whole = whole

    def note(self, pieces: Iterable[ResponseEvent]) -> None:
        """Keep events of a streamed response."""
        self._pieces += pieces

    def whole(self) -> Whole:
        """Return the response with the events so far."""
        assert self._whole is not None  # it has begun
        whole = self._whole()
        whole.add(self._pieces)
        return whole

    async def frames(
        self, stream: Stream, events: Events, context: RequestContext
    ) -> AsyncGenerator[bytes, None]:
        """Keep the events of a stream and yield its bytes."""
        async for pieces in events:
            self.note(pieces)
            if data := stream.events(pieces):
                yield data
        context.complete = True
        yield stream.end()
