"""A server in front of replicas, as routers are: each request goes to the next one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from starlette.responses import PlainTextResponse

from tests.support.servers.fake_backend import FakeBackend


class RoundRobin:
    def __init__(self, replicas: Sequence[FakeBackend]) -> None:
        self._replicas = [(each, each.app()) for each in replicas]
        self._turns = itertools.cycle(self._replicas)
        self.left: dict[str, int] = {}
        """By name: the status that the server sends for a replica that left."""
        self.sent = 0
        """Requests so far, with those for replicas that left."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.sent += 1
        replica, app = next(self._turns)
        if (status := self.left.get(replica.replica)) is not None:
            app = PlainTextResponse("No replica.", status)
        await app(scope, receive, send)
