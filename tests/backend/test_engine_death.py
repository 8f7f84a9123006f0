"""A real server whose engine is killed while grammars load."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import psutil
import pytest

from tests.models import tiny_model
from toolgate_core import grammar_key, wire
from toolgate_core.schema.canonical import canonical_parameters

KEY = "engine-death"
HEADERS = {"authorization": f"Bearer {KEY}"}


def start(log: Path, port: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "toolgate_backend.launch", str(tiny_model())]
    command += ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", "tiny"]
    command += ["--max-model-len", "4096"]
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            env=os.environ | {"VLLM_API_KEY": KEY, "VLLM_CPU_KVCACHE_SPACE": "1"},
            stdout=output,
            stderr=subprocess.STDOUT,
        )


class Loading(threading.Thread):
    """A client that loads new grammars until the server is gone."""

    def __init__(self, url: str, info: wire.Info) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._info = info
        self.results: list[tuple[str, float]] = []

    def run(self) -> None:
        while not self.results or self.results[-1][0] != "ConnectError":
            began = time.monotonic()
            try:
                answer = httpx.put(self._url, headers=HEADERS, json=self._body(), timeout=60)
                outcome = str(answer.status_code)
            except httpx.HTTPError as error:
                outcome = type(error).__name__
            self.results.append((outcome, time.monotonic() - began))

    def _body(self) -> dict[str, object]:
        name = f"a{random.random()}"
        parameters = canonical_parameters({"properties": {name: {"type": "string"}}})
        key = grammar_key.grammar_key(
            grammar_key.tool_hash("f", parameters),
            dialect=self._info.dialect,
            tokenizer=self._info.tokenizer,
            grammar_format=self._info.grammar_format,
        )
        return {"grammars": [{"key": key, "name": "f", "parameters": parameters}]}


@pytest.mark.slow
def test_the_server_ends_and_its_requests_fail_at_once(tmp_path: Path) -> None:
    with httpx.Client(trust_env=False) as client:
        port = free_port()
        server = start(tmp_path / "log", port)
        url = f"http://127.0.0.1:{port}/v1/toolgate"
        try:
            info = wait_until_ready(client, url, server, tmp_path / "log")
            loads = [Loading(f"{url}/grammars", info) for _ in range(8)]
            for load in loads:
                load.start()
            time.sleep(2)
            family = psutil.Process(server.pid).children(recursive=True)
            [engine] = [each for each in family if "EngineCore" in each.name()]
            engine.send_signal(signal.SIGKILL)
            assert server.wait(timeout=60) not in (0, -signal.SIGKILL)
            for load in loads:
                load.join(timeout=60)
            results = [result for load in loads for result in load.results]
            outcomes = Counter(outcome for outcome, _ in results)
            assert outcomes["200"]
            assert set(outcomes) <= {
                "200",
                "503",
                "ConnectError",
                "RemoteProtocolError",
                "ReadError",
            }
            assert max(seconds for _, seconds in results) < 30
            _, alive = psutil.wait_procs(family, timeout=20)
            assert not alive
        finally:
            server.kill()


def wait_until_ready(
    client: httpx.Client, url: str, server: subprocess.Popen[bytes], log: Path
) -> wire.Info:
    give_up = time.monotonic() + 240
    while True:
        assert server.poll() is None, log.read_text()[-2000:]
        assert time.monotonic() < give_up, log.read_text()[-2000:]
        try:
            answer = client.get(f"{url}/info", headers=HEADERS)
            if answer.is_success:
                return wire.Info.model_validate_json(answer.content)
        except httpx.TransportError:
            pass
        time.sleep(0.3)


def free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


pytestmark = pytest.mark.vllm
