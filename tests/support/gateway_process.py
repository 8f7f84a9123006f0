"""A gateway in a process of its own."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.support.fake_backend import KEY
from toolgate_proxy.stack.processes import free_port

MASTER_KEY = "sk-test-0f3a9c5b7d1e4862a0c4"
KEY_SECRET = "a-secret-for-the-hashes-of-keys"
START_TIMEOUT = 400.0


@dataclass(frozen=True)
class Gateway:
    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def require_alive(self) -> None:
        status = self.process.poll()
        assert status is None, (
            f"The gateway ended with status {status}:\n"
            f"{self.log.read_text(errors='replace')[-8000:]}"
        )


@contextmanager
def serving(
    command: list[str], backend_url: str, log: Path, redis_url: str | None = None, **more: str
) -> Iterator[Gateway]:
    """Runs a gateway by `command`, to which a port is added, until the context is left. `more` is
    added to its environment."""
    process, url = start(command, backend_url, log, redis_url, **more)
    try:
        wait_until_alive(process, url, log)
        gateway = Gateway(url, process, log)
        yield gateway
        gateway.require_alive()
    finally:
        process.terminate()
        process.wait(20)


def start(
    command: list[str],
    backend_url: str,
    log: Path,
    redis_url: str | None = None,
    port: int | None = None,
    **more: str,
) -> tuple[subprocess.Popen[bytes], str]:
    """The process, which the caller ends, and its URL. `more` is added to its environment."""
    port = port or free_port()
    environment = os.environ | {
        "TOOLGATE_MASTER_KEY": MASTER_KEY,
        "TOOLGATE_BACKEND_URL": backend_url,
        "TOOLGATE_BACKEND_KEY": KEY,
        "TOOLGATE_KEY_SECRET": KEY_SECRET,
        "TOOLGATE_KEEPALIVE_SECONDS": "8",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    if redis_url is not None:
        environment["TOOLGATE_REDIS_URL"] = redis_url
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*command, "--port", str(port)],
            env=environment | more,
            stdout=output,
            stderr=output,
        )
    return process, f"http://127.0.0.1:{port}"


def wait_until_alive(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
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
