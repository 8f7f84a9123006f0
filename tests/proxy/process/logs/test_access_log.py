"""The access log of a running gateway, as text and as JSON."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.support.servers.fake_backend import KEY, FakeBackend
from tests.support.servers.gateway_process import MASTER_KEY, environment, wait_until_alive
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import make_key
from toolgate_proxy.stack.processes import free_port

CHAT = "/v1/chat/completions"
SECRET_WORDS = "my secret is swordfish"


async def logged(log: Path, word: str) -> str:
    async with asyncio.timeout(10):
        while True:
            lines = log.read_text(errors="replace").splitlines()
            found = [each for each in lines if word in each and each.startswith("time=")]
            if found:
                return found[-1]
            await asyncio.sleep(0.05)


async def test_log_line_has_key_model_status_and_usage(
    gateway: str, gateway_log: Path, redis_of_gateway: RedisServer, backend: FakeBackend, route: str
) -> None:
    alias = f"logged-{route}"
    backend.scripts[SECRET_WORDS] = Script(("I shall say nothing",))
    sent, _ = await make_key(redis_of_gateway.url, gateway, alias=alias, team="web")
    body = {"model": "tiny", "messages": [{"role": "user", "content": SECRET_WORDS}]}
    async with http_client(gateway, timeout=20) as http:
        response = await http.post(CHAT, json=body, headers=bearer(sent))
        assert response.status_code == 200
        assert backend.requests[-1].request_id.startswith(f"{response.headers['x-request-id']}.")
        await http.post(CHAT, json=body, headers=bearer(MASTER_KEY))
    told = await logged(gateway_log, alias)
    for part in (
        f'request_id="{response.headers["x-request-id"]}"',
        f'call_id="{response.headers["x-litellm-call-id"]}"',
        f'key="{alias}"', 'team="web"', 'model="tiny"', "status=200",
        "prompt_tokens=11", "completion_tokens=8", "seconds=", "whole=true",
    ):  # fmt: skip
        assert part in told
    assert await logged(gateway_log, 'key="master"')
    everything = gateway_log.read_text(errors="replace")
    for secret in (sent, MASTER_KEY, KEY, "swordfish", "say nothing"):
        assert secret not in everything


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
