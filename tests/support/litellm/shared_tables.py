"""The tables of the stand-in for LiteLLM's database, shared by gateway processes.

They are in the process of the test. The clients in the gateways send it each statement.
"""

import asyncio
import pickle
import socketserver
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from litellm.proxy.utils import hash_token

from tests.support.litellm.prisma_stand_in import Prisma, modules
from toolgate_proxy.litellm_host.litellm_route import migration

Address = tuple[str, int]


class RemotePrisma(Prisma):
    """The client in a gateway."""

    address: Address

    def __init__(self, **_: object) -> None:
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._lock = asyncio.Lock()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("litellm_"):
            raise AttributeError(name)
        return RemoteTable(self, name)

    async def connect(self, *_: object, **__: object) -> None: ...

    async def disconnect(self, *_: object, **__: object) -> None: ...

    async def query_raw(self, sql: str, *values: Any) -> Any:
        return await self.call("query_raw", (sql, *values), {})

    async def query_first(self, sql: str, *values: object) -> Any:
        return await self.call("query_first", (sql, *values), {})

    async def execute_raw(self, sql: str, *values: Any) -> int:
        return int(await self.call("execute_raw", (sql, *values), {}))

    async def call(self, name: str, given: tuple[Any, ...], more: dict[str, Any]) -> Any:
        async with self._lock:
            if self._streams is None:
                self._streams = await asyncio.open_connection(*self.address)
            reader, writer = self._streams
            data = pickle.dumps((name, given, more))
            writer.write(len(data).to_bytes(4) + data)
            size = int.from_bytes(await reader.readexactly(4))
            result = pickle.loads(await reader.readexactly(size))
        if isinstance(result, Exception):
            raise result
        return result


class RemoteTable:
    def __init__(self, client: RemotePrisma, name: str) -> None:
        self._client = client
        self._name = name

    def __getattr__(self, method: str) -> Any:
        return lambda *given, **more: self._client.call(f"{self._name}.{method}", given, more)


def configure(config: dict[str, Any]) -> None:
    """Let a gateway's configuration use LiteLLM's database."""
    general = config["general_settings"]
    for name in ("custom_auth", "custom_auth_run_common_checks"):
        general.pop(name, None)


async def add_key(tables: Prisma, **columns: Any) -> str:
    """Add a key of LiteLLM's."""
    secret = f"sk-{uuid.uuid4().hex}"
    row = {"token": hash_token(secret), "models": [], "spend": 0.0} | columns
    await tables.litellm_verificationtoken.create(row)
    return secret


def logged(tables: Prisma, key: str) -> list[Any]:
    """Return the key's rows of the request log."""
    rows = tables.litellm_spendlogs.rows
    return [row for row in rows if row["api_key"] == hash_token(key)]


def install(address: Address) -> None:
    """Put the package `prisma` with clients of the tables where LiteLLM imports it from. There are
    no tables to create."""
    migration.set_up = lambda config: None
    client = type("Prisma", (RemotePrisma,), {"address": address})
    sys.modules.update({module.__name__: module for module in modules(client)})


@contextmanager
def shared(client: Prisma) -> Iterator[Address]:
    """Serve the tables of a client."""
    lock = threading.Lock()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while size := self.rfile.read(4):
                name, given, more = pickle.loads(self.rfile.read(int.from_bytes(size)))
                with lock:
                    data = pickle.dumps(_done(client, name, given, more))
                self.wfile.write(len(data).to_bytes(4) + data)

    socketserver.ThreadingTCPServer.daemon_threads = True
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[0], server.server_address[1]  # type: ignore[misc]
        server.shutdown()


def _done(client: Prisma, name: str, given: tuple[Any, ...], more: dict[str, Any]) -> Any:
    held: Any = client
    try:
        for part in name.split("."):
            held = getattr(held, part)
        return asyncio.run(held(*given, **more))
    except Exception as error:  # noqa: BLE001  it is raised in the gateway
        return error
