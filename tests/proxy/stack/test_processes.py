from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.installed import needs_vllm
from toolgate_proxy.cli import start
from toolgate_proxy.cli.main import app
from toolgate_proxy.demo import run as demo_run
from toolgate_proxy.stack.processes import free_port, in_use
from toolgate_proxy.stack.stack import StackOptions

linux = pytest.mark.skipif(sys.platform != "linux", reason="Only Linux reserves a port.")


def _listening(port: int = 0) -> socket.socket:
    return socket.create_server(("127.0.0.1", port))


@linux
def test_a_reserved_port_is_assigned_to_no_other_process() -> None:
    reserved = free_port()
    with pytest.raises(OSError, match="in use"), socket.socket() as other:
        other.bind(("127.0.0.1", reserved))
    with _listening() as server:  # thousands of connections, none from the reserved port
        for _ in range(3000):
            with socket.create_connection(server.getsockname()) as connection:
                assert connection.getsockname()[1] != reserved
            server.accept()[0].close()


def test_a_server_can_bind_to_a_reserved_port() -> None:
    port = free_port()
    assert not in_use("127.0.0.1", port)
    for _ in range(2):  # a second time too, as after a restart
        with _listening(port) as server, socket.create_connection(server.getsockname()):
            assert in_use("127.0.0.1", port)


def test_a_gateway_on_a_used_port_ends_with_one_line() -> None:
    with _listening() as server:
        port = server.getsockname()[1]
        command = [sys.executable, "-m", "toolgate_proxy", "proxy", "--model", "tiny"]
        run = subprocess.run(
            [*command, "--port", str(port)], capture_output=True, text=True, check=False
        )
    assert run.returncode == 1
    assert run.stdout == ""
    (line,) = run.stderr.splitlines()
    assert line == f"Port {port} of 127.0.0.1 is in use. Choose another port with --port."


@needs_vllm
def test_the_demo_takes_a_free_port_if_nobody_uses_the_gateway_afterwards(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ports: list[int] = []

    def run(options: StackOptions, *, once: bool) -> int:
        ports.append(options.port)
        return 0

    monkeypatch.setattr(demo_run, "demo", run)
    with _listening() as server:
        used = server.getsockname()[1]
        monkeypatch.setattr(start, "PORT", used)
        for arguments in (["--once"], [], ["--once", "--port", str(used)]):
            CliRunner().invoke(app, ["demo", "--model", str(tmp_path), *arguments])
    assert ports[0] != used
    assert ports[1:] == [used, used], "which the stack refuses"


@needs_vllm
@pytest.mark.parametrize("flag", ["--port", "--backend-port"])
def test_port_in_use_is_an_error_before_the_start(flag: str) -> None:
    with _listening() as server:
        port = server.getsockname()[1]
        result = CliRunner().invoke(app, ["serve", "no-such-model", flag, str(port)])
    assert result.exit_code == 1
    assert f"Port {port} of 127.0.0.1 is in use. Choose another port with {flag}." in result.output
