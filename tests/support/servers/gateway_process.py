"""A gateway in a process of its own.

The import of LiteLLM's proxy takes more than ten seconds of CPU time. One process imports it once
(`preload`), and every gateway is a fork of that process, which then runs the command line.
"""

import multiprocessing
import multiprocessing.forkserver
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from unittest.mock import patch

import httpx

from tests.support.servers.fake_backend import KEY, FakeBackend, running
from tests.support.servers.redis_server import RedisServer, redis_server
from toolgate_proxy.ops.stack.processes import free_port
from toolgate_proxy.response_store import sealed_stores
from toolgate_proxy.routing import deployments
from toolgate_proxy.server.launcher import HOST_ENVIRONMENT

MASTER_KEY = "sk-test-0f3a9c5b7d1e4862a0c4"
KEY_SECRET = "a-secret-for-the-hashes-of-keys"
BROWSER_ORIGIN = "https://console.example"
"""An origin whose browsers may call every gateway started here."""
START_TIMEOUT = 400.0

_PRELOADED = "tests.support.servers.forked_gateways"
_READ_ON_IMPORT = {**HOST_ENVIRONMENT, "LITELLM_CORS_ORIGINS": BROWSER_ORIGIN}
_fork_context = multiprocessing.get_context("forkserver")


@dataclass(frozen=True)
class Gateway:
    url: str
    process: ForkServerProcess
    log: Path

    def wait_until_alive(self) -> None:
        wait_until_alive(self.url, self.log, lambda: self.process.exitcode is None)

    def require_alive(self) -> None:
        status = self.process.exitcode
        assert status is None, (
            f"The gateway ended with status {status}:\n"
            f"{self.log.read_text(errors='replace')[-8000:]}"
        )

    def stop(self) -> None:
        self.process.terminate()
        self.process.join(20)
        assert self.process.exitcode is not None, "The gateway did not end within 20 s of SIGTERM."
        log = self.log.read_text(errors="replace")
        assert "never retrieved" not in log, log[-8000:]


@contextmanager
def serving(
    arguments: Sequence[str],
    backend_url: str,
    log: Path,
    redis_url: str | None = None,
    before: Callable[[], None] | None = None,
    **more: str,
) -> Iterator[Gateway]:
    """Runs `toolgate proxy` with `arguments` and a port until the context is left. `more` is added
    to its environment. `before` is called in its process, before it starts."""
    gateway = start(arguments, backend_url, log, redis_url, None, before, **more)
    try:
        gateway.wait_until_alive()
        yield gateway
        gateway.require_alive()
    finally:
        gateway.stop()


def start(
    arguments: Sequence[str],
    backend_url: str,
    log: Path,
    redis_url: str | None = None,
    port: int | None = None,
    before: Callable[[], None] | None = None,
    **more: str,
) -> Gateway:
    """As `serving`, but does not wait for it; the caller stops it."""
    preload()
    port = port or free_port()
    command = ["toolgate", "proxy", *arguments, "--port", str(port)]
    variables = os.environ | environment(backend_url, redis_url) | more
    arguments_of_run = (command, variables, log, before)
    process = _fork_context.Process(target=_run, args=arguments_of_run, daemon=True)
    process.start()
    return Gateway(f"http://127.0.0.1:{port}", process, log)


def environment(backend_url: str, redis_url: str | None = None) -> dict[str, str]:
    """A gateway's settings for a test. The limit on wrong keys is high: tests share gateways and
    the address that they send from, and a new key is a wrong one until the gateway knows it."""
    variables = {
        "TOOLGATE_MASTER_KEY": MASTER_KEY,
        "TOOLGATE_BACKEND_URL": backend_url,
        "TOOLGATE_BACKEND_KEY": KEY,
        "TOOLGATE_KEY_SECRET": KEY_SECRET,
        "TOOLGATE_KEEPALIVE_SECONDS": "8",
        "TOOLGATE_WRONG_KEYS_PER_MINUTE": "100000",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    if redis_url is not None:
        variables["TOOLGATE_REDIS_URL"] = redis_url
    return variables


def wait_until_alive(url: str, log: Path, is_running: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    with httpx.Client(base_url=url, timeout=2) as http:
        while time.monotonic() < deadline and is_running():
            try:
                if http.get("/health/liveliness").is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
    raise RuntimeError(f"The gateway did not start:\n{log.read_text(errors='replace')[-4000:]}")


def preload() -> None:
    """Starts the process that gateways are forked from, if it does not run. Its imports take place
    while the caller goes on."""
    _fork_context.set_forkserver_preload([_PRELOADED])
    with patch.dict(os.environ, _READ_ON_IMPORT):
        multiprocessing.forkserver.ensure_running()


def _run(
    command: list[str], variables: Mapping[str, str], log: Path, before: Callable[[], None] | None
) -> None:
    with log.open("ab", buffering=0) as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = command
    deployments.PROBE_INTERVAL = 0.25
    if before is not None:
        before()
    from toolgate_proxy.ops.cli import main

    main()


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
    from toolgate_proxy.server.background import Place  # imports LiteLLM

    sealed_stores.TIMEOUT_SECONDS, Place.lease = 0.5, 3.0


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
