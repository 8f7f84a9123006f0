"""Two gateway processes over one Redis and one backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.servers.fake_backend import FakeBackend, running
from tests.support.servers.gateway_process import Gateway, start
from tests.support.servers.redis_server import RedisServer, redis_server
from toolgate_proxy.response_store import redis_store
from toolgate_proxy.server.background.place import Place


@dataclass
class Fleet:
    backend: FakeBackend
    redis: RedisServer
    log: Path
    before: Callable[[], None] | None = None
    """Called in each process before it starts."""
    gateways: list[Gateway] = field(default_factory=list)

    @property
    def urls(self) -> list[str]:
        return [gateway.url for gateway in self.gateways]

    def start(self, at: int, port: int | None = None) -> None:
        arguments = ("--model", "tiny")
        gateway = start(arguments, self.backend.url, self.log, self.redis.url, port, self.before)
        self.gateways[at : at + 1] = [gateway]

    def wait(self) -> None:
        for gateway in self.gateways:
            gateway.wait_until_alive()


def impatient() -> None:
    """Called in a gateway: it soon gives up a Redis that hangs, and a gateway that died."""
    redis_store.TIMEOUT_SECONDS = 0.5
    Place.lease = 3.0


@contextmanager
def two_gateways(folder: Path, before: Callable[[], None] | None = None) -> Iterator[Fleet]:
    with running(FakeBackend()) as backend, redis_server(folder / "redis") as redis:
        made = Fleet(backend, redis, folder / "log", before)
        made.start(0)
        made.start(1)
        try:
            made.wait()
            yield made
        finally:
            for gateway in made.gateways:
                gateway.stop()
