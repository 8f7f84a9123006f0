"""The servers of these tests: vLLM backends of the tiny model, and gateways.

`toolgate serve` starts the first backend and its gateway, with Valkey, as a user starts them. That
one Ctrl-C ends all its processes with status 0 is a test, too. Of the others, those that the
collected tests need start in the background, backends one after the other in the order of `ORDER`.
"""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import httpx
import psutil

from tests.models import tiny_lora, tiny_model
from tests.support.servers import gateway_process
from tests.support.servers.gateway_process import MASTER_KEY
from tests.support.servers.http_client import sync_client
from toolgate_proxy.backend_client import client
from toolgate_proxy.ops.stack.processes import Child, free_port

START_SECONDS, STOP_SECONDS = 600, 60
PLACES = 16
"""Sequences that the first and the second backend run at once."""
MAX_REQUESTS = 40
"""Requests that they accept; they refuse further ones."""
FEW_PLACES = 4
"""Sequences that an engine of another backend runs at once."""
SMALL_CACHE = ("--kv-cache-memory-bytes", str(128 * 2**20))
"""Room for twice `PLACES` sequences of the tiny model's full length. The default is 1 GiB for each
rank, too much for a machine with 16 GB."""
SILENCE_SECONDS = 15
"""Time-outs of the impatient gateway."""
LORA = "poet"
"""LoRA adapter of the second backend; a model of the impatient gateway."""
DRAFTS = {
    "method": "ngram",
    "num_speculative_tokens": 6,
    "prompt_lookup_max": 4,
    "prompt_lookup_min": 2,
}
# A model on several processes: vLLM would bind each one to a NUMA node of its own.
UNBOUND = {"VLLM_CPU_OMP_THREADS_BIND": "nobind"}
ADAPTERS = ("structured_output", "logits_processor")
"""The first backend has the one that GPUs use."""
ORDER = (
    "litellm_gateway",
    "second",
    "impatient_gateway",
    "drafting",
    "two_ranks",
    "two_ranks_second_adapter",
)


def expect_silence():
    """Bound the silence of backends in the impatient gateway's process."""
    client.IDLE_SECONDS = SILENCE_SECONDS


def adapters():
    """Return the adapters under test, the first backend's first: both, or TOOLGATE_ADAPTER's."""
    wanted = os.environ.get("TOOLGATE_ADAPTER") or "auto"
    return ADAPTERS if wanted == "auto" else (wanted,)


def vllm(name, model, port, key, adapter, flags, logs, **more):
    """Start a backend. `more` is added to its environment."""
    command = [sys.executable, "-m", "toolgate_backend.launch", str(model)]
    command += ["--host", "127.0.0.1", "--port", str(port), *SMALL_CACHE, *flags]
    variables = {"VLLM_API_KEY": key, "TOOLGATE_ADAPTER": adapter, **UNBOUND, **more}
    variables["TOOLGATE_MAX_REQUESTS"] = str(MAX_REQUESTS)
    return Child(name, command, variables, logs / f"{name}.log")


def await_backend(backend, url, key, closing):
    """Wait until it answers, or until `closing` is set."""
    give_up = time.monotonic() + START_SECONDS
    with sync_client(url, key) as http:
        while not closing.wait(0.2):
            backend.check()
            assert time.monotonic() < give_up, f"{backend.log.read_text()[-4000:]}"
            with suppress(httpx.TransportError):
                if http.get("/v1/toolgate/info").is_success:
                    return


def await_model(http, model, check=lambda: None):
    """A gateway that started before a backend sees a second later that it answers."""
    body = {"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": "?"}]}
    give_up = time.monotonic() + STOP_SECONDS
    while (answer := http.post("/v1/chat/completions", json=body)).is_error:
        check()
        assert time.monotonic() < give_up, answer.text
        time.sleep(0.2)


@dataclass(frozen=True)
class Backend:
    url: str
    key: str
    pid: int

    def client(self, path=""):
        return sync_client(self.url + path, self.key, timeout=300)

    def running(self):
        """Return the number of requests in flight, queued ones included."""
        with self.client() as client:
            return int(client.get("/v1/toolgate/status").json()["running"])

    def is_gone(self):
        """Return whether nothing listens. vLLM's server ends some seconds after its engine."""
        try:
            httpx.get(f"{self.url}/health", trust_env=False, verify=False)
        except httpx.ConnectError:
            return True
        except httpx.TransportError:
            return False
        return False

    def signal(self, number, name=""):
        """Signal those of the backend's processes whose name or command contains `name`."""
        leader = psutil.Process(self.pid)
        for process in [leader, *leader.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):  # it ended with one that was killed before it
                if name in " ".join([process.name(), *process.cmdline()]):
                    process.send_signal(number)


@dataclass(frozen=True)
class Gateway:
    url: str
    key: str


@dataclass
class Stack:
    """`toolgate serve`."""

    url: str
    master_key: str
    backend_url: str
    backend_key: str
    process: subprocess.Popen[bytes]
    output: Path
    fails: bool = False
    """Whether a test kills one of its parts."""

    def said(self):
        return self.output.read_text(errors="replace")

    def require_alive(self):
        assert self.fails or self.process.poll() is None, self.said()[-8000:]

    def wait_ready(self):
        give_up = time.monotonic() + START_SECONDS
        while f"TOOLGATE READY {self.url}" not in self.said():
            self.require_alive()
            assert time.monotonic() < give_up, self.said()
            time.sleep(0.2)

    def backend_pid(self):
        children = psutil.Process(self.process.pid).children()
        [backend] = [child for child in children if "toolgate_backend.launch" in child.cmdline()]
        return int(backend.pid)


@contextmanager
def serve(ports, keys, adapter, output):
    """Start the stack without waiting for it. `ports` and `keys`: the gateway's, the backend's."""
    command = [sys.executable, "-m", "toolgate_proxy", "serve", str(tiny_model())]
    command += ["--port", str(ports[0]), "--backend-port", str(ports[1])]
    command += ["--max-num-seqs", str(PLACES), *SMALL_CACHE]
    variables = {
        "TOOLGATE_MASTER_KEY": keys[0],
        "TOOLGATE_BACKEND_KEY": keys[1],
        "TOOLGATE_ADAPTER": adapter,
        "TOOLGATE_MAX_REQUESTS": str(MAX_REQUESTS),
        "PYTHONFAULTHANDLER": "1",  # a process that crashes writes its stack to its log
    }
    with output.open("wb") as sink:
        process = subprocess.Popen(
            command, env={**os.environ, **variables}, stdout=sink, stderr=subprocess.STDOUT
        )
    launcher = psutil.Process(process.pid)
    gateway, backend = (f"http://127.0.0.1:{port}" for port in ports)
    running = Stack(gateway, keys[0], backend, keys[1], process, output)
    try:
        yield running
        running.require_alive()
    finally:
        # By descent: vLLM's engine writes its title over the environment that it was given.
        started = launcher.children(recursive=True) if process.poll() is None else []
        process.send_signal(signal.SIGINT)
        status = process.wait(STOP_SECONDS)
        _, left = psutil.wait_procs(started, timeout=STOP_SECONDS)
    assert status == (1 if running.fails else 0), running.said()
    assert left == []
    assert keys[0] not in running.said()


class Servers:
    """A context manager. `wanted` holds names of `ORDER`; the stack starts in any case."""

    def __init__(self, wanted, logs):
        self._wanted = {*wanted}
        self._logs = logs
        self._backend_key = uuid.uuid4().hex
        self._ports = {name: free_port() for name in ("stack", "first", *ORDER)}
        self._gateways = {}
        self._backends = {}
        self._may_end = set()
        self._started = {}
        self._answering = set()
        self._closing = Event()
        self._held = ExitStack()
        self.stack: Stack

    def __enter__(self):
        first, *_, last = adapters() * 2
        drafts = ["--speculative-config", json.dumps(DRAFTS), "--data-parallel-size", "2"]
        start = {
            "second": self._second,
            # Two engines, each with an API server: one start serves the tests of both.
            "drafting": lambda: self._start_backend("drafting", "auto", *drafts),
            "two_ranks": lambda: self._two_ranks("two_ranks", first),
            "two_ranks_second_adapter": lambda: self._two_ranks("two_ranks_second_adapter", last),
        }
        ports = self._ports["stack"], self._ports["first"]
        keys = MASTER_KEY, self._backend_key
        with ExitStack() as held:
            self.stack = held.enter_context(serve(ports, keys, first, self._logs / "serve.log"))
            held.callback(self._stop)
            if "litellm_gateway" in self._wanted:
                self._start_litellm_gateway()
            if "impatient_gateway" in self._wanted:
                self._start_impatient_gateway()
            thread = held.enter_context(ThreadPoolExecutor(1))
            held.callback(self._closing.set)
            for name in ORDER:
                if name in self._wanted and name in start:
                    self._started[name] = thread.submit(start[name])
                    held.callback(self._started[name].cancel)
            self.stack.wait_ready()
            self._held = held.pop_all()
        return self

    def __exit__(self, *failure):
        self._held.__exit__(*failure)

    def backend(self, name):
        """Return a backend that answers."""
        if name == "first":
            return Backend(self._url(name), self._backend_key, self.stack.backend_pid())
        self._started[name].result()
        return Backend(self._url(name), self._backend_key, self._backends[name].pid)

    def gateway(self, name, model):
        """Return a gateway that answers requests for `model`, whose backend answers."""
        gateway = Gateway(self._url(name), MASTER_KEY)
        if name != "stack" and (name, model) not in self._answering:
            self._gateways[name].wait_until_alive()
            with sync_client(gateway.url, gateway.key, timeout=60) as http:
                await_model(http, model, self.check)
            self._answering.add((name, model))
        return gateway

    def check(self):
        """Raise an error with the end of the log of a server that ended by itself."""
        self.stack.require_alive()
        for gateway in self._gateways.values():
            gateway.require_alive()
        for name, backend in [*self._backends.items()]:
            if name not in self._may_end:
                backend.check()

    def let_end(self, name):
        """A test kills this server."""
        self._may_end.add(name)
        self.stack.fails |= name == "first"

    def stop(self, name):
        """Stop a backend that no further test needs: each process of vLLM takes 0.5 to 1 GB."""
        self._backends.pop(name).stop()

    def _start_litellm_gateway(self):
        models = {"tiny": "first", "second": "second"}
        self._start_gateway("litellm_gateway", models, TOOLGATE_ROUTE="litellm")

    def _start_impatient_gateway(self):
        models = {"tiny": "first", "second": "second", LORA: "second", "ranks": "two_ranks"}
        self._start_gateway(
            "impatient_gateway",
            models,
            expect_silence,
            TOOLGATE_KEEPALIVE_SECONDS=str(2 * SILENCE_SECONDS),
            TOOLGATE_FIRST_TOKEN_TIMEOUT=str(SILENCE_SECONDS),
            TOOLGATE_REQUEST_TIMEOUT=str(6 * SILENCE_SECONDS),
        )

    def _start_gateway(self, name, models, before=None, **environment):
        """`models`: the backend of each model. Those that do not start have no model."""
        arguments = []
        for model, backend in models.items():
            if backend == "first" or backend in self._wanted:
                of_backend = model if model == LORA else "tiny"
                arguments += ["--model", f"{model}={of_backend}@{self._url(backend)}"]
        environment["TOOLGATE_BACKEND_KEY"] = self._backend_key
        log, port = self._logs / f"{name}.log", self._ports[name]
        self._gateways[name] = gateway_process.start(
            arguments, self._url("first"), log, port=port, before=before, **environment
        )

    def _second(self):
        flags = ["--max-num-seqs", str(PLACES), "--enable-lora", "--max-lora-rank", "8"]
        flags += ["--lora-modules", f"{LORA}={tiny_lora(self._logs / LORA)}"]
        self._start_backend("second", adapters()[-1], *flags)

    def _two_ranks(self, name, adapter):
        """The engine and both ranks wait for each other in loops. With two cores they would keep
        the servers from running for many seconds, so they get the lowest priority."""
        self._start_backend(name, adapter, "--tensor-parallel-size", "2")
        for process in psutil.Process(self._backends[name].pid).children(recursive=True):
            if process.name().startswith("VLLM::"):
                for thread in process.threads():
                    os.setpriority(os.PRIO_PROCESS, thread.id, 19)

    def _start_backend(self, name, adapter, *flags):
        flags = ("--served-model-name", "tiny", "--max-num-seqs", str(FEW_PLACES), *flags)
        port, key = self._ports[name], self._backend_key
        child = vllm(name, tiny_model(), port, key, adapter, flags, self._logs)
        self._backends[name] = child
        await_backend(child, self._url(name), key, self._closing)

    def _url(self, name):
        return f"http://127.0.0.1:{self._ports[name]}"

    def _stop(self):
        for gateway in self._gateways.values():
            gateway.stop()
        for backend in [*self._backends.values()]:
            backend.stop()
