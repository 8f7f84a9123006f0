"""Models that do not exist are reported before the start."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from toolgate_proxy.cli.main import app
from toolgate_proxy.stack.model_path import NoModel, check_model


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
