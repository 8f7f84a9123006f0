from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests.support.installed import needs_vllm
from toolgate_core.version import VERSION
from toolgate_proxy.cli.main import COMMANDS, app
from toolgate_proxy.server import launcher

RUNNER = CliRunner()


@pytest.fixture(autouse=True)
def _with_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLGATE_MASTER_KEY", "sk-1")


def test_proxy_command_generates_a_configuration_from_model_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served: dict[str, Any] = {}

    def serve(config: Path, **options: Any) -> None:
        served.update(options, config=yaml.safe_load(config.read_text()), path=config)

    monkeypatch.setattr(launcher, "serve", serve)
    result = RUNNER.invoke(
        app, ["proxy", "--model", "a", "--model", "b=c@http://h:1", "--port", "9"]
    )
    assert result.exit_code == 0, result.output
    assert [entry["model_name"] for entry in served["config"]["model_list"]] == ["a", "b"]
    assert served["config"]["model_list"][1]["litellm_params"]["model"] == "toolgate/c"
    assert (served["host"], served["port"]) == ("127.0.0.1", 9)
    assert not served["path"].exists()


def test_proxy_command_serves_the_given_configuration_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    served: list[Path] = []
    monkeypatch.setattr(launcher, "serve", lambda config, **_: served.append(config))
    monkeypatch.setenv("TOOLGATE_MASTER_KEY", "sk-x")
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(launcher.make_config([launcher.Route("m", "m")])))
    assert RUNNER.invoke(app, ["proxy", "--config", str(path)]).exit_code == 0
    assert served == [path]


@pytest.mark.parametrize(
    "arguments", [[], ["--model", "=x"], ["--config", "nowhere.yaml"], ["--workers", "0"]]
)
def test_proxy_command_refuses_invalid_arguments(arguments: list[str]) -> None:
    assert RUNNER.invoke(app, ["proxy", *arguments]).exit_code == 2


def test_proxy_command_without_a_master_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOOLGATE_MASTER_KEY")
    result = RUNNER.invoke(app, ["proxy", "--model", "m"])
    assert result.exit_code == 2
    assert "TOOLGATE_MASTER_KEY" in result.output


@needs_vllm
def test_invalid_settings_are_lines_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLGATE_BACKEND_URL", "gpu:8000")
    monkeypatch.setenv("TOOLGATE_OPEN_ROUTES", "metrics")
    result = RUNNER.invoke(app, ["proxy", "--model", "m"])
    assert (result.exit_code, result.stdout) == (2, "")
    first, second = sorted(result.stderr.splitlines())
    assert first == "TOOLGATE_BACKEND_URL: String should match pattern '^https?://'"
    assert second.endswith("TOOLGATE_OPEN_ROUTES has 'metrics'. Routes begin with `/`.")


@needs_vllm
def test_backend_command_executes_the_backend_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, command: handed.append(command))
    RUNNER.invoke(app, ["backend", "org/model", "--port", "8001", "--help"])
    assert handed == [
        [sys.executable, "-m", "toolgate_backend.launch", "org/model", "--port", "8001", "--help"]
    ]


def test_version_and_examples_are_printed() -> None:
    assert RUNNER.invoke(app, ["--version"]).output == f"toolgate {VERSION}\n"
    said = RUNNER.invoke(app, ["--help"]).output
    assert "toolgate serve Qwen/Qwen3-8B" in said
    for command in COMMANDS:
        assert f"\n  {command} " in said
        assert max(map(len, said.splitlines())) <= 80


def test_an_unknown_command_is_an_error() -> None:
    result = RUNNER.invoke(app, ["serv"])
    assert result.exit_code == 2
    assert "serv" in result.stderr
