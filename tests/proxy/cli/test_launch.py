"""`toolgate launch` runs a client with the gateway, its key and a model, and changes no files."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from toolgate_proxy.cli.launch import CLIENTS, Gateway, shell_lines
from toolgate_proxy.cli.main import app

from .conftest import ScriptedGateway

RUNNER = CliRunner()
GATEWAY = Gateway("http://gateway:4000", "qwen")


@pytest.fixture
def launched(gateway: ScriptedGateway) -> Any:
    """Run `toolgate launch` with the gateway, its model and its key."""
    gateway.names = ("qwen",)

    def run(*arguments: str, url: str = gateway.url, key: str = gateway.key) -> Any:
        command = ["launch", "--url", url, *arguments]
        return RUNNER.invoke(app, command, env={"TOOLGATE_API_KEY": key})

    return run


@pytest.mark.parametrize("name", CLIENTS)
def test_print_shows_the_commands_without_the_key(
    name: str, launched: Any, gateway: ScriptedGateway
) -> None:
    result = launched(name, "--print", "--", "-p", "two words")
    assert result.exit_code == 0, result.output
    assert result.output.rstrip().endswith("-p 'two words'")
    assert gateway.url in result.output
    assert "qwen" in result.output
    assert gateway.key not in result.output


@pytest.mark.parametrize("name", CLIENTS)
def test_client_gets_gateway_key_and_model(
    name: str,
    launched: Any,
    gateway: ScriptedGateway,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
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
    result = launched(name, "--", "-p", "Hello")
    assert result.exit_code == 0, result.output
    [(path, command, environment)] = ran
    assert path == str(program)
    assert command[-2:] == ["-p", "Hello"]
    assert [environment[variable] for variable in client.key_variables] == [gateway.key] * len(
        client.key_variables
    )
    assert not {*client.removed} & environment.keys()
    told = " ".join([*command, *environment.values()])
    assert gateway.url in told
    assert "qwen" in told
    assert gateway.key not in " ".join(command), "other users see the command line"


def test_one_of_several_models_must_be_chosen(launched: Any, gateway: ScriptedGateway) -> None:
    gateway.names = ("qwen", "kimi")
    result = launched("claude", "--print")
    assert result.exit_code == 2
    assert "qwen, kimi" in result.output
    assert launched("claude", "--print", "--model", "kimi").exit_code == 0
    assert launched("claude", "--print", "--model", "other").exit_code == 2


def test_a_wrong_key_and_a_missing_gateway_are_explained(launched: Any) -> None:
    assert "TOOLGATE_API_KEY" in launched("codex", key="sk-wrong").output
    assert "toolgate serve" in launched("codex", url="http://127.0.0.1:9").output


def test_a_client_that_is_not_installed_is_explained(
    launched: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = launched("codex")
    assert result.exit_code == 2
    assert "npm install -g @openai/codex" in result.output


def test_an_unknown_client_is_refused(launched: Any) -> None:
    result = launched("cursor")
    assert result.exit_code == 2
    assert "claude, codex, opencode, qwen" in result.output


def test_values_of_codex_are_toml() -> None:
    arguments = CLIENTS["codex"].arguments(Gateway("http://g", 'na"me'))
    assert arguments[:2] == ("-c", 'model="na\\"me"')


def test_keys_are_not_removed_from_the_shell_commands_of_others() -> None:
    lines = shell_lines(CLIENTS["claude"], GATEWAY, ["-p", "x"])
    assert 'export ANTHROPIC_AUTH_TOKEN="$TOOLGATE_API_KEY"' in lines
    assert "unset ANTHROPIC_API_KEY" in lines
