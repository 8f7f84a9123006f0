"""The master key that is kept between starts."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from toolgate_proxy.cli.gateway import find_master_key
from toolgate_proxy.stack.key_file import BadKeyFile, kept_key, key_path, read_key
from toolgate_proxy.stack.processes import free_port
from toolgate_proxy.stack.serve import announce, curl
from toolgate_proxy.stack.stack import Stack, StackOptions


@pytest.fixture(autouse=True)
def _without_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOOLGATE_MASTER_KEY", raising=False)


def stack() -> Stack:
    return Stack(StackOptions("m", port=free_port()), Console())


def test_the_key_is_generated_once_and_readable_by_its_owner_only(configuration: Path) -> None:
    path = configuration / "toolgate" / "master_key"
    first = stack()
    assert first.key_file == path
    assert first.master_key.startswith("sk-")
    assert path.read_text() == f"{first.master_key}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stack().master_key == first.master_key
    assert [each.name for each in path.parent.iterdir()] == ["master_key"]


def test_starts_at_the_same_time_have_one_key() -> None:
    keys: list[str] = []
    threads = [
        threading.Thread(target=lambda: keys.append(kept_key(key_path()))) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 16
    assert len({*keys}) == 1


def test_the_variable_takes_precedence(
    configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLGATE_MASTER_KEY", "sk-given")
    given = stack()
    assert (given.master_key, given.key_file) == ("sk-given", None)
    assert not configuration.exists()


def test_a_file_that_others_may_read_is_refused_without_its_content() -> None:
    path = key_path()
    key = kept_key(path)
    path.chmod(0o640)
    with pytest.raises(BadKeyFile, match="other users may read it") as raised:
        read_key(path)
    assert key not in str(raised.value)
    path.chmod(0o600)
    path.write_text("\n")
    with pytest.raises(BadKeyFile, match="it is empty"):
        kept_key(path)


def test_a_relative_configuration_folder_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_CONFIG_HOME", value)
        assert key_path() == Path.home() / ".config/toolgate/master_key"


def test_the_kept_key_is_sent_to_this_machine_only() -> None:
    key = kept_key(key_path())
    for url in ("http://127.0.0.1:4000", "http://localhost:1", "http://[::1]:1"):
        assert find_master_key(url) == key
    for url in ("http://gateway:4000", "http://127.0.0.1.example:4000", "127.0.0.1"):
        assert find_master_key(url) is None


def test_the_announcement_has_no_key(capsys: pytest.CaptureFixture[str]) -> None:
    ready = stack()
    announce(ready, Console())
    said = capsys.readouterr().out
    assert ready.master_key not in said
    assert f"{ready.url}/v1\n" in said
    assert said.splitlines()[-1] == f"TOOLGATE READY {ready.url}"


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize("in_file", [True, False])
def test_the_printed_request_works_in_a_shell(in_file: bool, tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    class Gateway(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.update(path=self.path, key=self.headers["Authorization"], body=body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    file = tmp_path / "a folder" / "key"
    file.parent.mkdir()
    file.write_text("sk-1\n")
    with HTTPServer(("127.0.0.1", 0), Gateway) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        command = curl(f"http://127.0.0.1:{server.server_port}", "it's", file if in_file else None)
        variables = {"PATH": os.environ["PATH"]} | (
            {} if in_file else {"TOOLGATE_MASTER_KEY": "sk-1"}
        )
        subprocess.run(["sh", "-c", command], env=variables, check=True, timeout=20)
        thread.join()
    assert seen["path"] == "/v1/chat/completions"
    assert seen["key"] == "Bearer sk-1"
    assert b'"it\'s"' in seen["body"]
