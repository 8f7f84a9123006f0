"""Batches commands of concurrent requests: commands that arrive during an exchange with Redis are
sent together in the next one.

A hundred concurrent requests need two or three exchanges over one connection, instead of a hundred
over as many connections, and none of them waits for a connection.
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
        """The reply; an exception if Redis refused the command; None if Redis did not respond."""
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
                    if not reply.done():  # the request may have been cancelled
                        reply.set_result(None if replies is None else replies[at])
        finally:
            self._sending = None
