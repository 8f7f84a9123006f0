"""A stack whose parts may be stopped and killed: two backends of few places behind one gateway
with short time-outs, and how what a client is told is read off the wire."""

from __future__ import annotations

import json
import signal
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.models import tiny_lora, tiny_model
from toolgate_proxy.stack.processes import Child, free_port

from .conftest import START_SECONDS

PLACES = 4
"""Sequences that a backend runs at once; what comes beside them is queued."""
IN_HAND = PLACES + 2
"""Requests that a backend takes on."""
ADAPTER = "poet"
"""A LoRA adapter that the first backend serves too."""
PATIENCE = 10
"""Seconds after which this gateway gives a silent backend up."""


@dataclass
class Faulty:
    url: str
    key: str
    backends: dict[str, tuple[str, Child]]
    """URL and process by the name of the model."""

    def signal(self, model: str, number: signal.Signals, name: str = "") -> None:
        """To every process of a backend, or to those whose command says `name`."""
        leader = psutil.Process(self.backends[model][1].pid)
        for process in [leader, *leader.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):  # it ended with one that was killed before it
                if name in " ".join([process.name(), *process.cmdline()]):
                    process.send_signal(number)


@contextmanager
def faulty(logs: Path) -> Iterator[Faulty]:
    key = f"sk-{uuid.uuid4().hex}"
    with ExitStack() as started:
        backends = {}
        for model in ("tiny", "doomed"):  # both at once: starting takes longest
            port = free_port()
            command = [sys.executable, "-m", "toolgate_backend.launch", str(tiny_model())]
            command += ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", model]
            command += ["--max-num-seqs", str(PLACES)]
            if model == "tiny":
                command += ["--enable-lora", "--max-lora-rank", "8"]
                command += ["--lora-modules", f"{ADAPTER}={tiny_lora(logs / ADAPTER)}"]
            environment = {"VLLM_API_KEY": key, "TOOLGATE_MAX_REQUESTS": str(IN_HAND)}
            child = Child(model, command, environment, logs / f"{model}.log")
            started.callback(child.stop)
            backends[model] = (f"http://127.0.0.1:{port}", child)
        for url, child in backends.values():
            wait(f"{url}/v1/toolgate/info", key, child)
        url = f"http://127.0.0.1:{(port := free_port())}"
        command = [sys.executable, "-m", "toolgate_proxy", "proxy", "--port", str(port)]
        for model, (backend_url, _) in backends.items():
            command += ["--model", f"{model}@{backend_url}"]
        command += ["--model", f"{ADAPTER}@{backends['tiny'][0]}"]
        environment = {
            "TOOLGATE_MASTER_KEY": key,
            "TOOLGATE_BACKEND_KEY": key,
            "TOOLGATE_REDIS_URL": "",
            "TOOLGATE_IDLE_TIMEOUT": str(PATIENCE),
            "TOOLGATE_FIRST_TOKEN_TIMEOUT": str(PATIENCE),
            "TOOLGATE_REQUEST_TIMEOUT": str(6 * PATIENCE),
        }
        gateway = Child("gateway", command, environment, logs / "gateway.log")
        started.callback(gateway.stop)
        wait(f"{url}/v1/models", key, gateway)
        yield Faulty(url, key, backends)


def wait(url: str, key: str, child: Child) -> None:
    give_up = time.monotonic() + START_SECONDS
    headers = {"authorization": f"Bearer {key}"}
    while time.monotonic() < give_up:
        child.check()
        try:
            if httpx.get(url, headers=headers, trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise TimeoutError(url)


@dataclass
class Told:
    """What came of a stream, as far as it was read."""

    status: int = 0
    content: str = ""
    reasoning: str = ""
    arguments: str = ""
    finish: str | None = None
    error: dict[str, Any] | None = None
    done: bool = False
    headers: dict[str, str] = field(default_factory=dict)

    def take(self, line: str) -> None:
        if not line.startswith("data: "):
            return
        if line == "data: [DONE]":
            self.done = True
            return
        chunk = json.loads(line.removeprefix("data: "))
        self.error = chunk.get("error", self.error)
        for choice in chunk.get("choices", ()):
            delta = choice["delta"]
            self.content += delta.get("content") or ""
            self.reasoning += delta.get("reasoning_content") or ""
            for call in delta.get("tool_calls") or ():
                self.arguments += call["function"].get("arguments") or ""
            self.finish = choice["finish_reason"] or self.finish
