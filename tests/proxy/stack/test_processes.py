from __future__ import annotations

import socket
import sys

import pytest
from typer.testing import CliRunner

from toolgate_proxy.cli.main import app
from toolgate_proxy.stack.processes import free_port, in_use

linux = pytest.mark.skipif(sys.platform != "linux", reason="Only Linux keeps a port for us.")


def _listening(port: int = 0) -> socket.socket:
    return socket.create_server(("127.0.0.1", port))


@linux
def test_a_free_port_is_given_to_nobody_else() -> None:
    ours = free_port()
    with pytest.raises(OSError, match="in use"), socket.socket() as other:
        other.bind(("127.0.0.1", ours))
    with _listening() as server:  # thousands of connections, none of them from our port
        for _ in range(3000):
            with socket.create_connection(server.getsockname()) as connection:
                assert connection.getsockname()[1] != ours
            server.accept()[0].close()


def test_the_server_that_is_told_of_a_free_port_gets_it() -> None:
    port = free_port()
    assert not in_use("127.0.0.1", port)
    for _ in range(2):  # a second time too, as after a restart
        with _listening(port) as server, socket.create_connection(server.getsockname()):
            assert in_use("127.0.0.1", port)


@pytest.mark.parametrize("flag", ["--port", "--backend-port"])
def test_a_port_that_is_taken_is_told_before_anything_starts(flag: str) -> None:
    with _listening() as server:
        port = server.getsockname()[1]
        told = CliRunner().invoke(app, ["serve", "no-such-model", flag, str(port)])
    assert told.exit_code == 1
    assert f"Port {port} of 127.0.0.1 is in use. Give another one with {flag}." in told.output
