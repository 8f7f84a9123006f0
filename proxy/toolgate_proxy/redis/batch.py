"""Commands of many requests in one exchange: those that come while one is under way go in the next.

A hundred requests that arrive together are counted in two or three exchanges over one connection,
instead of a hundred over as many; and none of them waits for a connection.
"""

from __future__ import annotations

import asyncio

from .client import Command, SharedRedis


class RedisBatch:
    def __init__(self, redis: SharedRedis) -> None:
        self._redis = redis
        self._waiting: list[tuple[Command, asyncio.Future[object]]] = []
        self._sending: asyncio.Task[None] | None = None

    async def run(self, command: Command) -> object:
        """The reply; an exception where the server refused the command, None where it is away."""
        reply: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._waiting.append((command, reply))
        if self._sending is None:
            self._sending = asyncio.create_task(self._send())
        return await reply

    async def _send(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                replies = await self._redis.run([command for command, _ in batch])
                for at, (_, reply) in enumerate(batch):
                    if not reply.done():  # its request may have been given up
                        reply.set_result(None if replies is None else replies[at])
        finally:
            self._sending = None
