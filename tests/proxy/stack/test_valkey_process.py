from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from redis import Redis

from toolgate_proxy.stack import valkey_process
from toolgate_proxy.stack.processes import free_port


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def process(port: int, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", valkey_process.__name__, str(port), str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert f"Valkey listens on port {port}." in started.stdout.readline()
        [server] = psutil.Process(started.pid).children()
        yield started
        started.kill()
        with suppress(psutil.NoSuchProcess):  # a test has ended it
            server.kill()


@pytest.mark.exhaustive
def test_a_pause_of_seconds_does_not_end_valkey(process: subprocess.Popen[str], port: int) -> None:
    [server] = psutil.Process(process.pid).children()
    server.send_signal(signal.SIGSTOP)
    time.sleep(2.5)
    server.send_signal(signal.SIGCONT)
    time.sleep(1.5)
    assert process.poll() is None
    assert Redis(port=port).ping()


def test_the_process_ends_with_valkey_and_says_how(process: subprocess.Popen[str]) -> None:
    [server] = psutil.Process(process.pid).children()
    server.kill()
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert output.endswith("Valkey exited with status -9.\n")
