"""The model of `toolgate demo`, and the error if it is not installed."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.installed import needs_vllm
from toolgate_proxy.cli.main import app
from toolgate_proxy.demo import model, run
from toolgate_proxy.stack.extras import install_command

pytestmark = needs_vllm


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The options of each started demo."""
    given: list[Any] = []
    monkeypatch.setattr(run, "demo", lambda options, **_: given.append(options) or 0)
    return given


def test_the_installed_model_is_complete() -> None:
    directory = model.directory()
    assert directory is not None
    names = {path.name for path in directory.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md"} <= names
    assert model.is_shipped(str(directory))
    assert not model.is_shipped(".cache/models/tiny")


def test_the_demo_serves_the_installed_model(options: list[Any]) -> None:
    assert CliRunner().invoke(app, ["demo", "--once"]).exit_code == 0
    assert [each.model for each in options] == [str(model.directory())]
    assert [each.name for each in options] == ["toolgate-demo"]


def test_missing_demo_model_is_an_error_that_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, options: list[Any]
) -> None:
    monkeypatch.setitem(sys.modules, "toolgate_demo_model", None)
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 2
    assert f"run {install_command('demo')}, or choose" in result.output
    assert "--model DIR" in result.output
    assert not options


def test_demo_with_another_model_does_not_need_the_demo_model(
    monkeypatch: pytest.MonkeyPatch, options: list[Any]
) -> None:
    monkeypatch.setitem(sys.modules, "toolgate_demo_model", None)
    assert CliRunner().invoke(app, ["demo", "--model", "some/dir"]).exit_code == 0
    assert [(each.model, each.name) for each in options] == [("some/dir", "dir")]
