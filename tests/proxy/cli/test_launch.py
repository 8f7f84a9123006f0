"""`toolgate launch` runs a client with the gateway, its key and a model, and changes no files."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from toolgate_proxy.cli.launch import CLIENTS, Gateway, shell_lines
from toolgate_proxy.cli.main import app

RUNNER = CliRunner()
KEY = "sk-of-the-gateway"
GATEWAY = Gateway("http://gateway:4000", "qwen")


class Models(BaseHTTPRequestHandler):
    """`GET /v1/models`."""

    names: tuple[str, ...] = ("qwen",)

    def do_GET(self) -> None:
        allowed = self.headers["Authorization"] == f"Bearer {KEY}"
        self.send_response(200 if allowed and self.path == "/v1/models" else 401)
        self.end_headers()
        self.wfile.write(json.dumps({"data": [{"id": name} for name in self.names]}).encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Models)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def two_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Models, "names", ("qwen", "kimi"))


def launched(url: str, *arguments: str, key: str = KEY) -> Any:
    return RUNNER.invoke(app, ["launch", "--url", url, *arguments], env={"TOOLGATE_API_KEY": key})


@pytest.mark.parametrize("name", CLIENTS)
def test_print_shows_the_commands_without_the_key(name: str, url: str) -> None:
    result = launched(url, name, "--print", "--", "-p", "two words")
    assert result.exit_code == 0, result.output
    assert result.output.rstrip().endswith("-p 'two words'")
    assert url in result.output
    assert "qwen" in result.output
    assert KEY not in result.output


@pytest.mark.parametrize("name", CLIENTS)
def test_client_gets_gateway_key_and_model(
    name: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = CLIENTS[name]
    program = tmp_path / client.command
    program.write_text("")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    for variable in client.removed:
        monkeypatch.setenv(variable, "elsewhere")
    ran: list[tuple[str, list[str], dict[str, str]]] = []
    monkeypatch.setattr(os, "execve", lambda *given: ran.append(given))
    result = launched(url, name, "--", "-p", "Hello")
    assert result.exit_code == 0, result.output
    [(path, command, environment)] = ran
    assert path == str(program)
    assert command[-2:] == ["-p", "Hello"]
    assert [environment[variable] for variable in client.key_variables] == [KEY] * len(
        client.key_variables
    )
    assert not {*client.removed} & environment.keys()
    told = " ".join([*command, *environment.values()])
    assert url in told
    assert "qwen" in told
    assert KEY not in " ".join(command), "other users see the command line"


def test_one_of_several_models_must_be_chosen(url: str, two_models: None) -> None:
    result = launched(url, "claude", "--print")
    assert result.exit_code == 2
    assert "qwen, kimi" in result.output
    assert launched(url, "claude", "--print", "--model", "kimi").exit_code == 0
    assert launched(url, "claude", "--print", "--model", "other").exit_code == 2


def test_a_wrong_key_and_a_missing_gateway_are_explained(url: str) -> None:
    assert "TOOLGATE_API_KEY" in launched(url, "codex", key="sk-wrong").output
    assert "toolgate serve" in launched("http://127.0.0.1:9", "codex").output


def test_a_client_that_is_not_installed_is_explained(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = launched(url, "codex")
    assert result.exit_code == 2
    assert "npm install -g @openai/codex" in result.output


def test_an_unknown_client_is_refused(url: str) -> None:
    result = launched(url, "cursor")
    assert result.exit_code == 2
    assert "claude, codex, opencode, qwen" in result.output


def test_values_of_codex_are_toml() -> None:
    arguments = CLIENTS["codex"].arguments(Gateway("http://g", 'na"me'))
    assert arguments[:2] == ("-c", 'model="na\\"me"')


def test_keys_are_not_removed_from_the_shell_commands_of_others() -> None:
    lines = shell_lines(CLIENTS["claude"], GATEWAY, ["-p", "x"])
    assert 'export ANTHROPIC_AUTH_TOKEN="$TOOLGATE_API_KEY"' in lines
    assert "unset ANTHROPIC_API_KEY" in lines
