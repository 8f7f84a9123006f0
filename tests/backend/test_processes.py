"""Real processes: servers whose engine dies, children without a parent, metrics."""

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
from tests.support.alert_rules import missing_series
from toolgate_core import grammar_key, wire
from toolgate_core.schema.canonical import canonical_parameters

# --- engine death ---
KEY = "engine-death"
HEADERS = {"authorization": f"Bearer {KEY}"}


def start(log, port):
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

    def __init__(self, url, info):
        super().__init__(daemon=True)
        self._url = url
        self._info = info
        self.results = []

    def run(self):
        while not self.results or self.results[-1][0] != "ConnectError":
            began = time.monotonic()
            try:
                answer = httpx.post(self._url, headers=HEADERS, json=self._body(), timeout=60)
                outcome = str(answer.status_code)
            except httpx.HTTPError as error:
                outcome = type(error).__name__
            self.results.append((outcome, time.monotonic() - began))

    def _body(self):
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
def test_the_server_ends_and_its_requests_fail_at_once(tmp_path):
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


def wait_until_ready(client, url, server, log):
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


def free_port():
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


pytestmark = pytest.mark.vllm


# --- parent watch ---
PARENT = """
import multiprocessing, time

def child(start):
    from toolgate_backend.adapters.lifetimes import end_with_parent
    end_with_parent()
    end_with_parent()
    print(multiprocessing.current_process().pid, flush=True)
    time.sleep(600)

if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    context.Process(target=child, args=(0,)).start()
    time.sleep(600)
"""


def test_a_child_ends_when_its_parent_is_killed(tmp_path):
    for method in ("spawn", "fork"):
        script = tmp_path / f"{method}.py"
        script.write_text(PARENT.format(method=method))
        parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert _lives(child)
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
        ends = time.monotonic() + 20
        while _lives(child):
            assert time.monotonic() < ends, f"a child by {method} outlives its parent"
            time.sleep(0.05)


def _lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# --- metrics ---
SCRAPE = """
from fastapi import FastAPI
from fastapi.testclient import TestClient
from toolgate_backend.grammars import metrics
from toolgate_core.wire import GrammarVerdict
from vllm.entrypoints.serve.instrumentator.metrics import attach_router

app = FastAPI()
attach_router(app)
print(TestClient(app).get("/metrics").text, end="# events\\n")
metrics.QUARANTINE_KILLS.labels("cpu").inc()
metrics.LOADED_GRAMMARS.set(3)
verdict = GrammarVerdict(key="k", status="ready", engine="xgrammar", compile_ms=3.0)
metrics.compiled(verdict, place="worker")
print(TestClient(app).get("/metrics").text)
"""


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["one", "several"])
def test_metrics_are_exposed_by_vllm_before_the_first_event(tmp_path, processes):
    environment = {k: v for k, v in os.environ.items() if k != "PROMETHEUS_MULTIPROC_DIR"}
    if processes == "several":
        environment["PROMETHEUS_MULTIPROC_DIR"] = str(tmp_path)
    scraped = subprocess.run(
        [sys.executable, "-c", SCRAPE], env=environment, capture_output=True, text=True, check=True
    )
    fresh, _, scraped_text = scraped.stdout.partition("# events\n")
    assert missing_series(fresh, backend=True) == []
    assert 'toolgate_backend_quarantine_kills_total{limit="cpu"} 1.0' in scraped_text
    assert "toolgate_backend_loaded_grammars 3.0" in scraped_text
    labels = '{engine="xgrammar",place="worker"}'
    assert f"toolgate_backend_grammar_compile_seconds_sum{labels} 0.003" in scraped_text
