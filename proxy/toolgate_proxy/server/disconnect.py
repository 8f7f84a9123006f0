"""Ends the work on a request when its client disconnects."""

from __future__ import annotations

import asyncio
from types import TracebackType

from starlette.types import Receive


class Disconnect:
    """An async context: a disconnect of the client cancels what runs in it, and leaves it without
    an error, with `happened` set. The request's body must have been read."""

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
        """From here on; to be called before the response's last message, after which the server
        reports a disconnect."""
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
        # The cancellation was ours; another one, of the server's, goes on.
        return task.uncancel() == 0 and (kind is None or kind is asyncio.CancelledError)

    async def _listen(self, task: asyncio.Task[object]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.happened = True
        task.cancel()
