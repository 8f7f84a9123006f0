"""Worker processes under uvicorn's supervisor, which kills those that do not respond."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from toolgate_proxy.stack.processes import free_port

APP = """
import ctypes
def create():
    ctypes.PyDLL(None).sleep(7)  # holds the interpreter's lock, as imports do on busy cores
    async def app(scope, receive, send):
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body"})
    return app
"""
SERVE = """
import sys, uvicorn
from toolgate_proxy.server.launcher import WORKER_SECONDS as limit
options = {"factory": True, "workers": 2, "timeout_worker_healthcheck": limit}
uvicorn.run("slow:create", port=int(sys.argv[1]), **options)
"""


@pytest.mark.exhaustive
def test_worker_that_starts_slowly_is_not_killed(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(APP)
    port, log = free_port(), tmp_path / "log"
    with log.open("wb") as output:
        supervisor = subprocess.Popen(
            [sys.executable, "-c", SERVE, str(port)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
            stdout=output,
            stderr=output,
        )
        try:
            ends = time.monotonic() + 90
            while not responds(port):
                assert time.monotonic() < ends, log.read_text()
                time.sleep(0.2)
        finally:
            supervisor.terminate()
            supervisor.wait(30)
    assert "died" not in log.read_text()


def responds(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}", trust_env=False).status_code == 204
    except httpx.TransportError:
        return False
