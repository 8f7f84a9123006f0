"""A running stack: its ports, its master key, its Valkey, and what is left behind at its end."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from redis import Redis
from rich.console import Console
from typer.testing import CliRunner

from tests.support.effort import rotating
from tests.support.installed import needs_vllm
from tests.support.servers.loopback import Handler, handling
from toolgate_proxy.ops import CommandFailed
from toolgate_proxy.ops import demo as demo_command
from toolgate_proxy.ops.cli import app
from toolgate_proxy.ops.demo import run as demo_run
from toolgate_proxy.ops.gateway import find_master_key, kept_key, key_path, read_key
from toolgate_proxy.ops.serve import announce, curl
from toolgate_proxy.ops.stack.processes import ChildFailed, free_port, in_use
from toolgate_proxy.ops.stack.stack import Stack, StackOptions
from toolgate_proxy.settings import settings

PROGRAM = """
from rich.console import Console
from toolgate_proxy.ops import serve
from toolgate_proxy.ops.stack import stack
from toolgate_proxy.ops.stack.stack import Stack, StackOptions

class SleepingStack(Stack):
    def _start(self, name, command, environment):
        sleep = ["sh", "-c", "echo failed; exit 3" if name == FAILING else "sleep 600 & sleep 600"]
        super()._start(name, sleep, environment)

    def _wait(self, url, is_ready):
        if FAILING:
            import time
            time.sleep(0.5)
        for child in self._children:
            child.check()

    def _send_first_request(self):
        (self._directory.path / "tmp" / "file").touch()

stack.Stack = SleepingStack
raise SystemExit(serve.run(StackOptions("m", port=0), serve.until_stopped))
"""
SECONDS = 120
"""Only a failure takes so long."""


@pytest.fixture(autouse=True)
def configuration(tmp_path, monkeypatch):
    """The user's configuration folder, in which stacks keep their master key."""
    folder = tmp_path.with_name(f"{tmp_path.name}-config")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    monkeypatch.delenv("TOOLGATE_MASTER_KEY", raising=False)
    return folder


def start(temporary, failing=""):
    """A stack whose children are `sleep`."""
    environment = {key: os.environ[key] for key in os.environ if not key.startswith("TOOLGATE_")}
    return subprocess.Popen(
        [sys.executable, "-c", f"FAILING = {failing!r}\n{PROGRAM}"],
        env={**environment, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        text=True,
    )


def processes(temporary):
    """The command lines of processes with this TMPDIR or one inside it."""
    running = [each.info for each in psutil.process_iter(["environ", "cmdline"])]
    return [
        " ".join(each["cmdline"] or ())
        for each in running
        if (each["environ"] or {}).get("TMPDIR", "").startswith(str(temporary))
    ]


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@rotating("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM, signal.SIGHUP], one_in=2)
def test_a_signal_leaves_no_processes_and_no_files(tmp_path, number):
    process = start(tmp_path)
    assert any(line.startswith("TOOLGATE READY") for line in process.stdout)
    assert sum("sleep 600" in command for command in processes(tmp_path)) >= 6  # 3 children, each 2
    process.send_signal(number)
    status = process.wait(SECONDS)
    assert status == (-signal.SIGKILL if number == signal.SIGKILL else 0)
    deadline = time.monotonic() + SECONDS
    while (processes(tmp_path) or [*tmp_path.iterdir()]) and time.monotonic() < deadline:
        assert number == signal.SIGKILL or not [*tmp_path.iterdir()], "only processes may be ending"
        time.sleep(0.05)
    assert not processes(tmp_path)
    assert not [*tmp_path.iterdir()]


@pytest.mark.exhaustive
def test_logs_of_a_failed_start_are_kept_at_the_printed_path(tmp_path):
    process = start(tmp_path, failing="gateway")
    output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    [kept] = tmp_path.iterdir()
    assert (kept / "gateway.log").read_text() == "failed\n"
    said = output.splitlines()
    reason = said.index("✗ The gateway exited with status 3: failed")
    assert said[reason + 1 :] == ["stopping …", f"log (kept for a day): {kept / 'gateway.log'}"]


def listening(port=0):
    return socket.create_server(("127.0.0.1", port))


@pytest.mark.skipif(sys.platform != "linux", reason="Only Linux reserves a port.")
def test_a_reserved_port_is_assigned_to_no_other_process():
    reserved = free_port()
    with pytest.raises(OSError, match="in use"), socket.socket() as other:
        other.bind(("127.0.0.1", reserved))
    with listening() as server:  # thousands of connections, none from the reserved port
        for _ in range(3000):
            with socket.create_connection(server.getsockname()) as connection:
                assert connection.getsockname()[1] != reserved
            server.accept()[0].close()


def test_a_server_can_bind_to_a_reserved_port():
    port = free_port()
    assert not in_use("127.0.0.1", port)
    for _ in range(2):  # a second time too, as after a restart
        with listening(port) as server, socket.create_connection(server.getsockname()):
            assert in_use("127.0.0.1", port)


@pytest.mark.exhaustive
def test_a_gateway_on_a_used_port_ends_with_one_line():
    with listening() as server:
        port = server.getsockname()[1]
        command = [sys.executable, "-m", "toolgate_proxy", "proxy", "--model", "tiny"]
        command += ["--port", str(port)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (1, "")
    [line] = run.stderr.splitlines()
    assert line == f"Port {port} of 127.0.0.1 is in use. Choose another port with --port."


@needs_vllm
def test_the_demo_takes_a_free_port_if_nobody_uses_the_gateway_afterwards(monkeypatch, tmp_path):
    ports = []
    monkeypatch.setattr(demo_run, "demo", lambda options, once: ports.append(options.port) or 0)
    with listening() as server:
        used = server.getsockname()[1]
        monkeypatch.setattr(demo_command, "PORT", used)
        for arguments in (["--once"], [], ["--once", "--port", str(used)]):
            CliRunner().invoke(app, ["demo", "--model", str(tmp_path), *arguments])
    assert ports[0] != used
    assert ports[1:] == [used, used], "which the stack refuses"


@needs_vllm
@pytest.mark.parametrize("flag", ["--port", "--backend-port"])
def test_port_in_use_is_an_error_before_the_start(flag):
    with listening() as server:
        port = server.getsockname()[1]
        result = CliRunner().invoke(app, ["serve", "no-such-model", flag, str(port)])
    assert result.exit_code == 1
    assert f"Port {port} of 127.0.0.1 is in use. Choose another port with {flag}." in result.output


def stack():
    return Stack(StackOptions("m", port=free_port()), Console())


def test_the_key_is_generated_once_and_readable_by_its_owner_only(configuration, monkeypatch):
    monkeypatch.setenv("TOOLGATE_MASTER_KEY", "sk-given")
    given = stack()
    assert (given.master_key, given.key_file) == ("sk-given", None)
    assert not configuration.exists()
    monkeypatch.delenv("TOOLGATE_MASTER_KEY")
    settings.cache_clear()
    path, first = configuration / "toolgate" / "master_key", stack()
    assert first.key_file == path
    assert first.master_key.startswith("sk-")
    assert path.read_text() == f"{first.master_key}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stack().master_key == first.master_key
    assert [each.name for each in path.parent.iterdir()] == ["master_key"]


def test_starts_at_the_same_time_have_one_key():
    keys = []
    threads = [
        threading.Thread(target=lambda: keys.append(kept_key(key_path()))) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(keys), len({*keys})) == (16, 1)


def test_a_file_that_others_may_read_is_refused_without_its_content():
    path = key_path()
    key = kept_key(path)
    path.chmod(0o640)
    with pytest.raises(CommandFailed, match="other users may read it") as raised:
        read_key(path)
    assert key not in str(raised.value)
    path.chmod(0o600)
    path.write_text("\n")
    with pytest.raises(CommandFailed, match="it is empty"):
        kept_key(path)


def test_a_relative_configuration_folder_is_ignored(monkeypatch):
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_CONFIG_HOME", value)
        assert key_path() == Path.home() / ".config/toolgate/master_key"


def test_the_kept_key_is_sent_to_this_machine_only():
    key = kept_key(key_path())
    for url in ("http://127.0.0.1:4000", "http://localhost:1", "http://[::1]:1"):
        assert find_master_key(url) == key
    for url in ("http://gateway:4000", "http://127.0.0.1.example:4000", "127.0.0.1"):
        assert find_master_key(url) is None


def test_the_announcement_has_no_key(capsys):
    ready = stack()
    announce(ready, Console())
    said = capsys.readouterr().out
    assert ready.master_key not in said
    assert f"{ready.url}/v1\n" in said
    assert said.splitlines()[-1] == f"TOOLGATE READY {ready.url}"


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize("in_file", [True, False])
def test_the_printed_request_works_in_a_shell(in_file, tmp_path):
    seen = {}

    class Gateway(Handler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.update(path=self.path, key=self.headers["Authorization"], body=body)
            self.answer(200)

    file = tmp_path / "a folder" / "key"
    file.parent.mkdir()
    file.write_text("sk-1\n")
    variables = {"PATH": os.environ["PATH"]}
    if not in_file:
        variables["TOOLGATE_MASTER_KEY"] = "sk-1"
    with handling(Gateway) as url:
        command = ["sh", "-c", curl(url, "it's", file if in_file else None)]
        subprocess.run(command, env=variables, check=True, timeout=SECONDS)
    assert (seen["path"], seen["key"]) == ("/v1/chat/completions", "Bearer sk-1")
    assert b'"it\'s"' in seen["body"]


@pytest.mark.exhaustive
def test_the_bundled_valkey_answers_and_its_end_is_reported(tmp_path, monkeypatch):
    monkeypatch.delenv("TOOLGATE_REDIS_URL", raising=False)
    settings.cache_clear()
    started = stack()
    started._directory, started._logs, started._cleanup = (
        SimpleNamespace(path=tmp_path),
        tmp_path,
        None,
    )
    url = started._start_redis()
    [child] = started._children
    assert Redis.from_url(url).ping()
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(ChildFailed, match=r"^The redis was killed by SIGKILL"):
        started.watch()
