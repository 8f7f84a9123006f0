"""The whole stack, started once by `toolgate serve` as a user would: Valkey, vLLM with the tiny
random model, the LiteLLM gateway. Ending it is a test too: one Ctrl-C, and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai
import psutil
import pytest

from tests.models import tiny_model
from toolgate_core import wire
from toolgate_proxy.demo.run import closers
from toolgate_proxy.stack.processes import free_port

START_SECONDS, STOP_SECONDS = 600, 60
BOTH_WAYS = (
    "test_answers",
    "test_budgets",
    "test_cases",
    "test_clients",
    "test_formats",
    "test_parameters",
    "test_refusals",
)


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


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    port, backend_port = free_port(), free_port()
    master_key, backend_key = f"sk-{uuid.uuid4().hex}", uuid.uuid4().hex
    command = [sys.executable, "-m", "toolgate_proxy", "serve", str(tiny_model())]
    command += ["--port", str(port), "--backend-port", str(backend_port), "--max-num-seqs", "16"]
    environment = {
        "TOOLGATE_MASTER_KEY": master_key,
        "TOOLGATE_BACKEND_KEY": backend_key,
        "PYTHONFAULTHANDLER": "1",  # a process that dies says where, in its log
    }
    output = tmp_path_factory.mktemp("serve") / "output"
    with output.open("wb") as sink:
        process = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=sink, stderr=subprocess.STDOUT
        )
    running = Stack(
        url=f"http://127.0.0.1:{port}",
        master_key=master_key,
        backend_url=f"http://127.0.0.1:{backend_port}",
        backend_key=backend_key,
        process=process,
        output=output,
    )
    launcher = psutil.Process(process.pid)
    try:
        _wait_ready(running)
        yield running
        running.require_alive()
    finally:
        # By descent: vLLM's engine writes its title over the environment that it was given.
        started = launcher.children(recursive=True) if process.poll() is None else []
        process.send_signal(signal.SIGINT)
        status = process.wait(STOP_SECONDS)
        _, left = psutil.wait_procs(started, timeout=STOP_SECONDS)
    assert status == 0, output.read_text(errors="replace")
    assert left == []
    assert running.master_key not in output.read_text()


@pytest.fixture(autouse=True)
def _alive(request: pytest.FixtureRequest) -> Iterator[None]:
    """The test in which the stack died says so, with the end of its log."""
    yield
    stack = request.getfixturevalue("stack") if "stack" in request.fixturenames else None
    if isinstance(stack, Stack):  # test_faults.py has a stack of its own, and kills it
        stack.require_alive()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What these modules test holds on both ways: our own route, and LiteLLM's handler."""
    module = metafunc.module.__name__.rpartition(".")[2]
    if module in BOTH_WAYS and "url" in metafunc.fixturenames:
        metafunc.parametrize("way", ("own", "litellm"), indirect=True, scope="session")


@pytest.fixture(scope="session")
def way(request: pytest.FixtureRequest) -> str:
    return str(getattr(request, "param", "own"))


@pytest.fixture(scope="session")
def url_of_litellms_way(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A second gateway before the same backend, all of whose requests go LiteLLM's way."""
    port, log = free_port(), tmp_path_factory.mktemp("litellms-way") / "log"
    command = [sys.executable, "-m", "toolgate_proxy", "proxy", "--model", "tiny"]
    environment = {
        "TOOLGATE_ROUTE": "litellm",
        "TOOLGATE_MASTER_KEY": stack.master_key,
        "TOOLGATE_BACKEND_URL": stack.backend_url,
        "TOOLGATE_BACKEND_KEY": stack.backend_key,
    }
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [*command, "--port", str(port)],
            env={**os.environ, **environment},
            stdout=sink,
            stderr=subprocess.STDOUT,
        )
    try:
        give_up = time.monotonic() + START_SECONDS
        while not _answers(url):
            assert process.poll() is None, log.read_text(errors="replace")[-8000:]
            assert time.monotonic() < give_up, log.read_text(errors="replace")[-8000:]
            time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(STOP_SECONDS)


@pytest.fixture
def url(way: str, stack: Stack, request: pytest.FixtureRequest) -> str:
    """The gateway's."""
    return str(request.getfixturevalue("url_of_litellms_way")) if way == "litellm" else stack.url


@pytest.fixture
def client(url: str, stack: Stack) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key=stack.master_key, max_retries=0)


@pytest.fixture
def async_client(url: str, stack: Stack) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=stack.master_key, max_retries=0)


@pytest.fixture
def backend(stack: Stack) -> Iterator[httpx.Client]:
    """The backend itself, past the gateway."""
    headers = {"authorization": f"Bearer {stack.backend_key}"}
    url = f"{stack.backend_url}/v1/toolgate"
    with httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False) as http:
        yield http


@pytest.fixture(scope="session")
def bias() -> dict[str, float]:
    """logit_bias that makes the random model end strings, objects and turns."""
    return closers(tiny_model())


@pytest.fixture(scope="session")
def common(bias: dict[str, float]) -> dict[str, Any]:
    return {"model": "tiny", "max_tokens": 400, "temperature": 1.0, "seed": 11, "logit_bias": bias}


def status(backend: httpx.Client) -> wire.Status:
    """The backend's status after a step of the engine in which nothing of ours takes part: what
    ended leaves the batch with the next step."""
    request = wire.GenerateRequest(
        request_id=f"status-{uuid.uuid4().hex}",
        model="tiny",
        prompt=wire.TokensPrompt(token_ids=(1, 2, 3)),
        sampling=wire.Sampling(max_tokens=2),
        stream=False,
    )
    backend.post("/generate", content=request.model_dump_json()).raise_for_status()
    return wire.Status.model_validate_json(backend.get("/status").content)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health/liveliness", timeout=2, trust_env=False).is_success
    except httpx.TransportError:
        return False


def _wait_ready(stack: Stack) -> None:
    give_up = time.monotonic() + START_SECONDS
    while f"TOOLGATE READY {stack.url}" not in stack.output.read_text(errors="replace"):
        stack.require_alive()
        assert time.monotonic() < give_up, stack.output.read_text(errors="replace")
        time.sleep(0.2)
