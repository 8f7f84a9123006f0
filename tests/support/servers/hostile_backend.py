"""A backend whose responses are attacks: raw bytes that an honest backend never sends.

`/v1/toolgate/info` and `/v1/toolgate/grammars` are answered as by an honest backend until an attack
replaces them. A request to generate or to count is answered by the attack whose name is its last
message. It can also hang.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.servers.fake_backend import INFO
from toolgate_core import wire

LONGEST = 15.0
"""Seconds after which an endless response ends."""
PART = 65_536
"""Size of the parts of endless bodies."""

Parts = Callable[[], Iterable[bytes]]


def head(status: int = 200, *fields: str) -> bytes:
    """The head of a response that ends with its connection."""
    lines = [f"HTTP/1.1 {status} X", "content-type: application/json", *fields, "connection: close"]
    return "\r\n".join((*lines, "", "")).encode()


def sent(body: object, status: int = 200, *fields: str) -> Parts:
    """A response with this body: bytes, or a value that is sent as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda: (head(status, *fields), content)


def endless(part: bytes, status: int = 200, begin: bytes = b"", *fields: str) -> Parts:
    """A body that repeats `part` for as long as it is read."""
    many = part * max(1, PART // len(part))
    return lambda: itertools.chain((head(status, *fields), begin), itertools.repeat(many))


def compressed(megabytes: int) -> Parts:
    """A small body with gzip that is large without it. The request asked for no compression."""
    content = gzip.compress(b"[" + b" " * (megabytes * 1_000_000) + b"]", 1)
    return lambda: (head(200, "content-encoding: gzip"), content)


def nested(depth: int) -> bytes:
    return b'{"error":' + b"[" * depth + b"]" * depth + b"}"


def generated(*events: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a whole response; those that `events` lacks are honest ones."""
    given = {event["event"]: event for event in events}
    start = {"event": "start", "prompt_tokens": 3, "reasoning_open": False}
    tokens = {"event": "tokens", "choice": 0, "ids": [101, 102], "texts": ["a", "b"]}
    end = {"event": "end", "choice": 0, "finish_reason": "stop"}
    usage = {"event": "usage", "prompt_tokens": 3, "completion_tokens": 2}
    return [{**each, **given.get(str(each["event"]), {})} for each in (start, tokens, end, usage)]


def stream(events: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


@dataclass
class HostileBackend:
    attacks: dict[str, Parts] = field(default_factory=dict)
    """By the last message of a request."""
    routes: dict[str, Parts] = field(default_factory=dict)
    """By path."""
    url: str = ""
    sent: int = 0
    """Bytes."""
    hangs: bool = False
    """Whether it accepts connections and requests, and sends nothing."""

    def respond(self, path: str, body: bytes) -> Iterable[bytes]:
        if path in self.routes:
            return self.routes[path]()
        if path == "/v1/toolgate/info":
            return sent(INFO.model_dump(mode="json"))()
        if path == "/v1/toolgate/grammars":
            keys = [each["key"] for each in json.loads(body)["grammars"]]
            ready = [wire.GrammarVerdict(key=key, status="ready", engine="x") for key in keys]
            return sent(wire.GrammarVerdicts(grammars=tuple(ready)).model_dump(mode="json"))()
        return self.attacks[json.loads(body)["prompt"]["messages"][-1]["content"]]()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            begin = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = next(
                (int(line[15:]) for line in begin.split("\r\n") if line[:15] == "content-length:"),
                0,
            )
            body = await reader.readexactly(length)
            while self.hangs:  # noqa: ASYNC110  set in another thread
                await asyncio.sleep(0.02)
            until = time.monotonic() + LONGEST
            for part in self.respond(begin.split(" ")[1], body):
                writer.write(part)
                self.sent += len(part)
                await writer.drain()
                if time.monotonic() > until:
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@contextmanager
def running(backend: HostileBackend) -> Iterator[HostileBackend]:
    """Serves the backend at a free port of the loopback interface, in a thread."""
    loop, started = asyncio.new_event_loop(), threading.Event()

    async def start() -> None:
        server = await asyncio.start_server(backend.serve, "127.0.0.1", 0)
        backend.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        started.set()

    def run() -> None:
        loop.run_until_complete(start())
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    started.wait(10)
    try:
        yield backend
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
