"""`toolgate launch` runs a client with the gateway, its key, a model and its context length, and
changes no files of the user."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from toolgate_proxy.cli.launch.clients import CLIENTS
from toolgate_proxy.cli.launch.command import shell_lines
from toolgate_proxy.cli.launch.target import Target, Window
from toolgate_proxy.cli.main import app

from .conftest import ScriptedGateway

RUNNER = CliRunner()
Executed = tuple[str, list[str], dict[str, str]]
"""A program, its arguments and its environment."""
TARGET = Target("http://gateway:4000", "qwen")
SHOWN = {"max_model_len": 40_000, "max_output_tokens": 5_000}
WINDOW = {
    "claude": {
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "40000",
        "CLAUDE_CODE_AUTO_COMPACT_WINDOW": "40000",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "5000",
    },
    "copilot": {
        "COPILOT_PROVIDER_MAX_PROMPT_TOKENS": "35000",
        "COPILOT_PROVIDER_MAX_OUTPUT_TOKENS": "5000",
    },
}
"""By client: the environment variables with the context length."""


@pytest.fixture
def launched(gateway: ScriptedGateway, tmp_path: Path) -> Any:
    """Run `toolgate launch` with the gateway, its model and its key."""
    gateway.names, gateway.shown = ("qwen",), SHOWN

    def run(*arguments: str, url: str = gateway.url, key: str = gateway.key) -> Any:
        command = ["launch", "--url", url, *arguments]
        environment = {"TOOLGATE_API_KEY": key, "XDG_CACHE_HOME": str(tmp_path / "cache")}
        return RUNNER.invoke(app, command, env=environment)

    return run


@pytest.fixture
def executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Executed]:
    """What replaces the process. The programs of all clients are installed."""
    for client in CLIENTS.values():
        program = tmp_path / client.command
        program.write_text("")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    ran: list[Executed] = []
    monkeypatch.setattr(os, "execve", lambda *given: ran.append(given))
    return ran


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
    executed: list[Executed],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = CLIENTS[name]
    for variable in client.removed:
        monkeypatch.setenv(variable, "elsewhere")
    result = launched(name, "--", "-p", "Hello")
    assert result.exit_code == 0, result.output
    [(path, command, environment)] = executed
    assert Path(path).name == client.command
    assert command[-2:] == ["-p", "Hello"]
    assert [environment[variable] for variable in client.key_variables] == [gateway.key] * len(
        client.key_variables
    )
    assert not {*client.removed} & environment.keys()
    told = " ".join([*command, *environment.values()])
    assert gateway.url in told
    assert "qwen" in told
    assert gateway.key not in " ".join(command), "other users see the command line"


@pytest.mark.parametrize("name", CLIENTS)
def test_client_gets_the_context_length(
    name: str, launched: Any, executed: list[Executed], tmp_path: Path
) -> None:
    assert launched(name).exit_code == 0
    [(_, command, environment)] = executed
    if name in WINDOW:
        assert {variable: environment[variable] for variable in WINDOW[name]} == WINDOW[name]
        return
    if name == "opencode":
        content = json.loads(environment["OPENCODE_CONFIG_CONTENT"])
        [model] = content["provider"]["toolgate"]["models"].values()
        assert model["limit"] == {"context": 40_000, "input": 35_000, "output": 5_000}
        return
    [file] = (tmp_path / "cache").rglob("*.json")
    told = " ".join([*command, *environment.values()])
    assert str(file) in told
    content = json.loads(file.read_text())
    match name:
        case "codex":
            [entry] = content["models"]
            assert (entry["slug"], entry["context_window"]) == ("qwen", 40_000)
            assert entry["auto_compact_token_limit"] == 30_000
            assert entry["apply_patch_tool_type"] == "freeform"
            assert entry["truncation_policy"] == {"mode": "tokens", "limit": 5_000}
            assert [each["effort"] for each in entry["supported_reasoning_levels"]] == [
                "low", "medium", "high"
            ]  # fmt: skip
            assert entry["supports_search_tool"] is True
        case "qwen":
            assert content["model"]["generationConfig"]["contextWindowSize"] == 40_000
        case "aider":
            assert content["openai/qwen"]["max_input_tokens"] == 40_000
        case _:
            raise AssertionError(name)


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize(
    ("shown", "note"),
    [
        ({}, "no backend of it has responded"),
        ({"max_model_len": 8192, "max_output_tokens": 1024}, "has 8,192 tokens"),
    ],
)
def test_a_context_length_that_is_unknown_or_small_is_not_set(
    name: str,
    shown: dict[str, int],
    note: str,
    launched: Any,
    gateway: ScriptedGateway,
    executed: list[Executed],
    tmp_path: Path,
) -> None:
    gateway.shown = shown
    result = launched(name)
    assert note in result.output
    [(_, command, environment)] = executed
    told = " ".join([*command, *environment.values()])
    assert not {*WINDOW.get(name, {})} & environment.keys()
    assert "8192" not in told
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("name", CLIENTS)
def test_the_printed_commands_do_the_same(
    name: str, launched: Any, executed: list[Executed], tmp_path: Path
) -> None:
    assert launched(name).exit_code == 0
    written = {path: path.read_text() for path in (tmp_path / "cache").rglob("*.json")}
    for path in written:
        path.unlink()
    printed = launched(name, "--print").output
    [(program, command, environment)] = executed
    Path(program).write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"; exec /usr/bin/env\n")
    done = subprocess.run(
        ["/bin/sh", "-c", printed],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "TOOLGATE_API_KEY": "sk-of-the-gateway"},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert lines[: len(command) - 1] == command[1:]
    for variable in (*WINDOW.get(name, {}), *CLIENTS[name].key_variables):
        assert f"{variable}={environment[variable]}" in lines
    assert {path: path.read_text().strip() for path in written} == written


def test_a_folder_that_can_not_be_written_is_explained(
    launched: Any, executed: list[Executed], tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file")
    result = launched("codex")
    assert result.exit_code == 2
    assert "XDG_CACHE_HOME" in result.output
    assert not executed


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
    assert "claude, codex, opencode, qwen, copilot, aider" in result.output


def test_values_of_codex_are_toml() -> None:
    target = Target("http://g", 'na"me', Window(40_000, 5_000))
    arguments = CLIENTS["codex"].arguments(target)
    assert arguments[:2] == ("-c", 'model="na\\"me"')
    assert arguments[-1].endswith('/toolgate/launch/codex-na%22me.json"')


def test_keys_are_not_removed_from_the_shell_commands_of_others() -> None:
    lines = shell_lines(CLIENTS["claude"], TARGET, ["-p", "x"])
    assert 'export ANTHROPIC_AUTH_TOKEN="$TOOLGATE_API_KEY"' in lines
    assert "unset ANTHROPIC_API_KEY" in lines
