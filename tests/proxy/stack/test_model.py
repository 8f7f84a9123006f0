"""The model of a start: paths without a model, and its download, seen from Hugging Face's cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from toolgate_proxy.cli.main import app
from toolgate_proxy.stack import model as model_module
from toolgate_proxy.stack.model import (
    Download,
    NoModel,
    cache_folder,
    check_model,
    gigabytes,
    total_size,
)
from toolgate_proxy.stack.progress import Phase


@pytest.mark.parametrize("model", ["/nonexistent", "./none", "../none", "~/none", "a/b/c"])
def test_a_path_without_a_model_is_an_error(model: str) -> None:
    with pytest.raises(NoModel, match="does not exist"):
        check_model(model)


@pytest.mark.parametrize(
    "model", ["gpt2", "Qwen/Qwen3-8B", "unsloth/Qwen3-GGUF:Q4_K_M", "s3://bucket/model"]
)
def test_ids_and_urls_are_left_to_vllm(model: str) -> None:
    check_model(model)


def test_a_directory_must_contain_a_model(tmp_path: Path) -> None:
    with pytest.raises(NoModel, match=r"no config\.json"):
        check_model(str(tmp_path))
    (tmp_path / "x.bin").touch()
    with pytest.raises(NoModel, match="is a file"):
        check_model(str(tmp_path / "x.bin"))
    for name in ("config.json", "params.json", "model.gguf"):
        (tmp_path / name).touch()
        check_model(str(tmp_path))
        (tmp_path / name).unlink()


def test_serve_reports_it_at_once() -> None:
    result = CliRunner().invoke(app, ["serve", "/nonexistent"])
    assert result.exit_code == 2
    assert result.stderr.startswith("The model /nonexistent does not exist.")


MODEL = "owner/model"


@pytest.fixture
def blobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # the hub is not asked for the size
    folder = tmp_path / "models--owner--model" / "blobs"
    folder.mkdir(parents=True)
    return folder


def test_new_bytes_are_a_download(blobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (blobs / "old").write_bytes(b"x" * 1_000_000)
    running = Download(MODEL)
    assert running.look() is None
    (blobs / "new.incomplete").write_bytes(b"x" * 2_000_000)
    assert running.look() == Phase("downloading", None, "3 MB")
    running._total = 12_000_000
    assert running.look() == Phase("downloading", 25, "3 MB of 12 MB")
    monkeypatch.setattr(model_module, "PAUSE", -1.0)
    assert running.look() is None  # nothing has arrived lately


def test_a_local_model_is_not_downloaded(blobs: Path, tmp_path: Path) -> None:
    assert Download(str(tmp_path)).look() is None


def test_the_cache_is_where_huggingface_hub_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    name = "models--unsloth--Qwen3-GGUF"
    assert cache_folder("unsloth/Qwen3-GGUF:Q4") == Path.home() / ".cache/huggingface/hub" / name
    monkeypatch.setenv("HF_HOME", "/data/hf")
    assert cache_folder("gpt2") == Path("/data/hf/hub/models--gpt2")
    monkeypatch.setenv("HF_HUB_CACHE", "/cache")
    assert cache_folder("gpt2") == Path("/cache/models--gpt2")


def test_one_kind_of_weights_counts() -> None:
    files = {"a-1.safetensors": 100, "a-2.safetensors": 50, "a.bin": 150, "config.json": 1}
    assert total_size(files) == 151
    assert total_size({"a.bin": 150, "config.json": 1}) == 151
    assert total_size({"config.json": 1}) == 1


def test_sizes_are_rounded() -> None:
    assert [gigabytes(size) for size in (1_200_000, 120_000_000, 16_381_516_736)] == [
        "1 MB",
        "0.1 GB",
        "16.4 GB",
    ]
