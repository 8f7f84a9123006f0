"""A gateway in a process of its own."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from fake_backend import KEY

from toolgate_proxy.processes import free_port

MASTER_KEY = "sk-test-0f3a9c5b7d1e4862a0c4"
START_TIMEOUT = 180.0


@contextmanager
def serving(
    command: list[str], backend_url: str, log: Path, redis_url: str | None = None
) -> Iterator[str]:
    """Runs a gateway by `command`, to which a port is added, until the context is left."""
    port = free_port()
    environment = os.environ | {
        "TOOLGATE_MASTER_KEY": MASTER_KEY,
        "TOOLGATE_BACKEND_URL": backend_url,
        "TOOLGATE_BACKEND_KEY": KEY,
        "TOOLGATE_KEEPALIVE_SECONDS": "0.5",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    if redis_url is not None:
        environment["TOOLGATE_REDIS_URL"] = redis_url
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--port", str(port)], env=environment, stdout=output, stderr=output
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_until_alive(process, url, log)
        yield url
    finally:
        process.terminate()
        process.wait(20)


def _wait_until_alive(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            if httpx.get(f"{url}/health/liveliness", timeout=2).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise RuntimeError(f"The gateway did not start:\n{log.read_text(errors='replace')[-4000:]}")
