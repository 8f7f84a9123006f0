"""The log of a gateway with TOOLGATE_LOG_FORMAT=json, from its first line to its last."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.gateway_process import MASTER_KEY, environment, wait_until_alive
from tests.support.servers.http_client import bearer
from tests.support.servers.script import Script
from toolgate_proxy.stack.processes import free_port

BODY = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_every_line_is_json(tmp_path: Path, spare_backend: FakeBackend, workers: int) -> None:
    """A process of its own, because forks of another one end without Python's shutdown."""
    spare_backend.scripts["hi"] = Script(("Hello",))
    port, log = free_port(), tmp_path / "log"
    command = [sys.executable, "-m", "toolgate_proxy", "proxy", "--model", "tiny"]
    command += ["--port", str(port), "--workers", str(workers)]
    variables = os.environ | environment(spare_backend.url) | {"TOOLGATE_LOG_FORMAT": "json"}
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=variables, stdout=output, stderr=output)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_alive(url, log, lambda: process.poll() is None)
        headers = bearer(MASTER_KEY)
        sent = httpx.post(f"{url}/v1/chat/completions", json=BODY, headers=headers, timeout=60)
        assert sent.status_code == 200
    finally:
        process.terminate()
        process.wait(60)
    lines = [json.loads(each) for each in log.read_text().splitlines()]
    assert all({"time", "level"} <= each.keys() for each in lines)
    messages = [each.get("message", "") for each in lines]
    assert "Model tiny: own route." in messages
    assert any(each.startswith("Finished server process") for each in messages)
