"""Detection of a client that disconnects before its response has ended."""

from __future__ import annotations

import asyncio
from types import TracebackType

from starlette.types import Receive


class Disconnect:
    """Async context manager that cancels its body when the client disconnects.

    The body then ends without an exception, and `happened` is True. Read the request's body before
    entering.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._listening: asyncio.Task[None] | None = None
        self.happened = False

    async def __aenter__(self) -> Disconnect:
        task = asyncio.current_task()
        assert task is not None
        self._listening = asyncio.create_task(self._listen(task))
        return self

    def ignore(self) -> None:
        """Stop watching. Call it before sending the last message: after that message the ASGI
        server reports a disconnect for every request."""
        if self._listening is not None:
            self._listening.cancel()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self.ignore()
        task = asyncio.current_task()
        if not self.happened or task is None:
            return False
        # Swallows our own cancellation only; one by the server continues.
        return task.uncancel() == 0 and (kind is None or kind is asyncio.CancelledError)

    async def _listen(self, task: asyncio.Task[object]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.happened = True
        task.cancel()
