"""A stack that ends in any way leaves no process and no file behind. Its children are `sleep`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = """
from rich.console import Console
from toolgate_proxy.stack import serve
from toolgate_proxy.stack.stack import Stack, StackOptions

class SleepingStack(Stack):
    def _start(self, name, command, environment):
        sleep = ["sh", "-c", "echo failed; exit 3" if name == FAILING else "sleep 600 & sleep 600"]
        super()._start(name, sleep, environment)

    def _wait(self, url, is_ready):
        if FAILING:
            import time
            time.sleep(0.5)
        self._check()

    def _send_first_request(self):
        (self._directory.path / "tmp" / "file").touch()

serve.Stack = SleepingStack
raise SystemExit(serve.serve(StackOptions("m", port=0)))
"""
SECONDS = 20


def start(temporary: Path, failing: str = "") -> subprocess.Popen[str]:
    environment = {key: os.environ[key] for key in os.environ if not key.startswith("TOOLGATE_")}
    return subprocess.Popen(
        [sys.executable, "-c", f"FAILING = {failing!r}\n{PROGRAM}"],
        env={**environment, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        text=True,
    )


def processes(temporary: Path) -> list[str]:
    """The command lines of processes with this TMPDIR or one inside it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            variables = (process / "environ").read_bytes().split(b"\0")
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if any(each.startswith(f"TMPDIR={temporary}".encode()) for each in variables):
            found.append(command)
    return found


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_leaves_no_processes_and_no_files(tmp_path: Path, number: signal.Signals) -> None:
    process = start(tmp_path)
    assert process.stdout is not None
    assert any(line.startswith("TOOLGATE READY") for line in process.stdout)
    assert sum("sleep 600" in command for command in processes(tmp_path)) >= 6  # 3 children, each 2
    process.send_signal(number)
    status = process.wait(SECONDS)
    assert status == (-signal.SIGKILL if number == signal.SIGKILL else 0)
    deadline = time.monotonic() + SECONDS
    while (processes(tmp_path) or [*tmp_path.iterdir()]) and time.monotonic() < deadline:
        assert number == signal.SIGKILL, "must be clean when the process has exited"
        time.sleep(0.05)
    assert not processes(tmp_path)
    assert not [*tmp_path.iterdir()]


@pytest.mark.exhaustive
def test_logs_of_a_failed_start_are_kept_at_the_printed_path(tmp_path: Path) -> None:
    process = start(tmp_path, failing="gateway")
    output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    [kept] = tmp_path.iterdir()
    assert (kept / "gateway.log").read_text() == "failed\n"
    said = output.splitlines()
    reason = said.index("✗ The gateway exited with status 3: failed")
    assert said[reason + 1 :] == ["stopping …", f"log (kept for a day): {kept / 'gateway.log'}"]
