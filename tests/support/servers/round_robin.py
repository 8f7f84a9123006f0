"""A server in front of replicas, as routers are: each request goes to the next one."""

import itertools
import json
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
        self.rewrites = False
        """Whether it sorts the members of bodies, and reads numbers as floats."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.sent += 1
        replica, app = next(self._turns)
        if (status := self.left.get(replica.replica)) is not None:
            app = PlainTextResponse("No replica.", status)
        if self.rewrites:
            receive = await _rewritten(receive)
        await app(scope, receive, send)


async def _rewritten(receive: Any) -> Any:
    content, more = b"", True
    while more:
        event = await receive()
        content, more = content + event["body"], event["more_body"]
    body = json.dumps(json.loads(content, parse_int=float), sort_keys=True).encode()
    first = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Any:
        return first.pop() if first else await receive()

    return again
