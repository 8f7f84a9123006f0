"""`toolgate launch` runs a client with the gateway, its key, a model and its context length, and
changes no files of the user."""

import json
import os
import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest
from typer.testing import CliRunner

from tests.proxy.kit import beside, listing
from toolgate_proxy.ops.cli import app
from toolgate_proxy.ops.launch import CLIENTS, AgentModel, shell_lines

TOLD = beside(__file__)
"""The variables, options or files in which each client gets the context length."""
WINDOW = {name: how.get("variables", {}) for name, how in TOLD.items()}
EACH_CLIENT = pytest.mark.parametrize("name", CLIENTS)


@pytest.fixture
def gateway():
    with listing() as gateway:
        gateway.names = ("qwen",)
        gateway.shown = {"max_model_len": 40_000, "max_output_tokens": 5_000}
        yield gateway


@pytest.fixture
def launched(gateway, tmp_path):
    """Run `toolgate launch` with the gateway, its model and its key."""

    def run(*arguments, url=gateway.url, key=gateway.key):
        command = ["launch", "--url", url, *arguments]
        environment = {"TOOLGATE_API_KEY": key, "XDG_CACHE_HOME": str(tmp_path / "cache")}
        return CliRunner().invoke(app, command, env=environment)

    return run


@pytest.fixture
def executed(tmp_path, monkeypatch):
    """The programs that replace the process, their arguments and environments. The programs of all
    clients are installed."""
    for client in CLIENTS.values():
        (tmp_path / client.command).touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    ran = []
    monkeypatch.setattr(os, "execve", lambda *given: ran.append(given))
    return ran


@EACH_CLIENT
def test_print_shows_the_commands_without_the_key(name, launched, gateway):
    result = launched(name, "--print", "--", "-p", "two words")
    assert result.exit_code == 0, result.output
    assert result.output.rstrip().endswith("-p 'two words'")
    assert gateway.url in result.output
    assert "qwen" in result.output
    assert gateway.key not in result.output


@EACH_CLIENT
def test_client_gets_gateway_key_model_and_context_length(
    name, launched, gateway, executed, monkeypatch, tmp_path
):
    client = CLIENTS[name]
    for variable in client.removed:
        monkeypatch.setenv(variable, "elsewhere")
    result = launched(name, "--", "-p", "Hello")
    assert result.exit_code == 0, result.output
    [(path, command, environment)] = executed
    assert (Path(path).name, command[-2:]) == (client.command, ["-p", "Hello"])
    assert {environment[variable] for variable in client.keys} == {gateway.key}
    assert not {*client.removed} & environment.keys()
    told = " ".join([*command, *environment.values()])
    assert gateway.url in told
    assert "qwen" in told
    assert gateway.key not in " ".join(command), "other users see the command line"
    files = [*(tmp_path / "cache").rglob("*.json")]
    assert all(str(file) in told for file in files)
    assert {name: environment[name] for name in WINDOW[name]} == WINDOW[name]
    if expected := TOLD[name].get("json"):
        where = TOLD[name].get("in")
        content = json.loads(environment[where] if where else files[0].read_text())
        assert {path: at(content, path) for path in expected} == expected


def at(value, path):
    """The part of a JSON value at a path."""
    for part in path.split("/"):
        value = value[int(part) if isinstance(value, list) else unquote(part)]
    return value


@EACH_CLIENT
@pytest.mark.parametrize(
    ("shown", "note"),
    [
        ({}, "no backend of it has responded"),
        ({"max_model_len": 8192, "max_output_tokens": 1024}, "has 8,192 tokens"),
    ],
)
def test_a_context_length_that_is_unknown_or_small_is_not_set(
    name, shown, note, launched, gateway, executed, tmp_path
):
    gateway.shown = shown
    assert note in launched(name).output
    [(_, command, environment)] = executed
    assert not {*WINDOW[name]} & environment.keys()
    assert "8192" not in " ".join([*command, *environment.values()])
    assert not (tmp_path / "cache").exists()


@EACH_CLIENT
def test_the_printed_commands_do_the_same(name, launched, gateway, executed, tmp_path):
    assert launched(name).exit_code == 0
    written = {path: path.read_text() for path in (tmp_path / "cache").rglob("*.json")}
    for path in written:
        path.unlink()
    printed = launched(name, "--print").output
    [(program, command, environment)] = executed
    Path(program).write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"; exec /usr/bin/env\n")
    set_here = {"PATH": f"{tmp_path}:/usr/bin:/bin", "TOOLGATE_API_KEY": gateway.key}
    shell = ["/bin/sh", "-c", printed]
    done = subprocess.run(shell, env=set_here, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[: len(command) - 1] == command[1:]
    for variable in (*WINDOW[name], *CLIENTS[name].keys):
        assert f"{variable}={environment[variable]}" in lines
    assert {path: path.read_text().strip() for path in written} == written


def test_one_of_several_models_must_be_chosen(launched, gateway):
    gateway.names = ("qwen", "kimi")
    result = launched("claude", "--print")
    assert (result.exit_code, "qwen, kimi" in result.output) == (2, True)
    assert launched("claude", "--print", "--model", "kimi").exit_code == 0
    result = launched("claude", "--print", "--model", "other")
    assert (result.exit_code, "Use one of: qwen, kimi." in result.output) == (2, True)


def test_what_prevents_a_launch_is_explained(launched, executed, tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("a file")
    result = launched("codex")
    assert (result.exit_code, "XDG_CACHE_HOME" in result.output) == (2, True)
    assert "TOOLGATE_API_KEY" in launched("codex", key="sk-wrong").output
    assert "toolgate serve" in launched("codex", url="http://127.0.0.1:9").output
    result = launched("cursor")
    assert result.exit_code == 2
    assert "claude, codex, opencode, qwen, copilot, aider" in result.output
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    result = launched("codex")
    assert (result.exit_code, "npm install -g @openai/codex" in result.output) == (2, True)
    assert not executed


def test_values_of_codex_are_toml_and_keys_stay_in_the_shell_commands_of_others():
    target = AgentModel("http://g", 'na"me', 40_000, 5_000)
    arguments = CLIENTS["codex"].arguments_for(target)
    assert arguments[:2] == ["-c", 'model="na\\"me"']
    assert arguments[-1].endswith('/toolgate/launch/codex-na%22me.json"')
    lines = shell_lines(CLIENTS["claude"], AgentModel("http://gateway:4000", "qwen"), ["-p", "x"])
    assert 'export ANTHROPIC_AUTH_TOKEN="$TOOLGATE_API_KEY"' in lines
    assert "unset ANTHROPIC_API_KEY" in lines
