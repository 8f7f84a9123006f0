"""A server in front of replicas, as routers are: each request goes to the next one."""

import itertools
import json

from starlette.responses import PlainTextResponse


class RoundRobin:
    def __init__(self, replicas):
        self._replicas = [(each, each.app()) for each in replicas]
        self._turns = itertools.cycle(self._replicas)
        self.left = {}
        """By name: the status that the server sends for a replica that left."""
        self.sent = 0
        """Requests so far, with those for replicas that left."""
        self.rewrites = False
        """Whether it sorts the members of bodies, and reads numbers as floats."""

    async def __call__(self, scope, receive, send):
        self.sent += 1
        replica, app = next(self._turns)
        if (status := self.left.get(replica.replica)) is not None:
            app = PlainTextResponse("No replica.", status)
        if self.rewrites:
            receive = await _rewritten(receive)
        await app(scope, receive, send)


async def _rewritten(receive):
    content, more = b"", True
    while more:
        event = await receive()
        content, more = content + event["body"], event["more_body"]
    body = json.dumps(json.loads(content, parse_int=float), sort_keys=True).encode()
    first = [{"type": "http.request", "body": body, "more_body": False}]

    async def again():
        return first.pop() if first else await receive()

    return again
