"""`toolgate serve` with the tiny random model, as a user starts it: Valkey, vLLM, the gateway.

Ending it is a test too: one Ctrl-C ends every process, with status 0.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.models import tiny_model

START_SECONDS, STOP_SECONDS = 600, 60


@dataclass(frozen=True)
class Stack:
    url: str
    master_key: str
    backend_url: str
    backend_key: str
    process: subprocess.Popen[bytes]
    output: Path

    def require_alive(self) -> None:
        assert self.process.poll() is None, self.output.read_text(errors="replace")[-8000:]

    def wait_ready(self) -> None:
        give_up = time.monotonic() + START_SECONDS
        while f"TOOLGATE READY {self.url}" not in self.output.read_text(errors="replace"):
            self.require_alive()
            assert time.monotonic() < give_up, self.output.read_text(errors="replace")
            time.sleep(0.2)

    def backend_pid(self) -> int:
        children = psutil.Process(self.process.pid).children()
        [backend] = [child for child in children if "toolgate_backend.launch" in child.cmdline()]
        return int(backend.pid)


@contextmanager
def serve(
    ports: tuple[int, int],
    keys: tuple[str, str],
    flags: Sequence[str],
    environment: Mapping[str, str],
    output: Path,
) -> Iterator[Stack]:
    """Start the stack without waiting for it. `ports` and `keys`: the gateway's, the backend's."""
    command = [sys.executable, "-m", "toolgate_proxy", "serve", str(tiny_model())]
    command += ["--port", str(ports[0]), "--backend-port", str(ports[1]), *flags]
    variables = {
        "TOOLGATE_MASTER_KEY": keys[0],
        "TOOLGATE_BACKEND_KEY": keys[1],
        "PYTHONFAULTHANDLER": "1",  # a process that crashes writes its stack to its log
    }
    with output.open("wb") as sink:
        process = subprocess.Popen(
            command,
            env={**os.environ, **variables, **environment},
            stdout=sink,
            stderr=subprocess.STDOUT,
        )
    launcher = psutil.Process(process.pid)
    gateway, backend = (f"http://127.0.0.1:{port}" for port in ports)
    try:
        yield (running := Stack(gateway, keys[0], backend, keys[1], process, output))
        running.require_alive()
    finally:
        # By descent: vLLM's engine writes its title over the environment that it was given.
        started = launcher.children(recursive=True) if process.poll() is None else []
        process.send_signal(signal.SIGINT)
        status = process.wait(STOP_SECONDS)
        _, left = psutil.wait_procs(started, timeout=STOP_SECONDS)
    assert status == 0, output.read_text(errors="replace")
    assert left == []
    assert keys[0] not in output.read_text()
