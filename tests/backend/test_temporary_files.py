"""What vLLM leaves in the temporary directory is removed with the run."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolgate_backend import launch
from toolgate_backend.temporary_files import own_directory
from toolgate_core.run_directory import MAX_LENGTH

LEFT = """
import os, tempfile
from toolgate_backend.temporary_files import own_directory
with own_directory():
    open(tempfile.mktemp(prefix="vllm_dist_"), "w").close()
    os.kill(os.getpid(), 9)
"""


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short path, unlike those of pytest."""
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as path:
        monkeypatch.setattr(tempfile, "tempdir", path)
        monkeypatch.setenv("TMPDIR", path)
        monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
        yield Path(path)


def test_files_of_a_run_are_removed_at_its_end(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def serve(flags: list[str]) -> None:
        Path(tempfile.gettempdir(), "vllm_dist_1").touch()
        found = subprocess.run(
            [sys.executable, "-c", "import tempfile; print(tempfile.gettempdir())"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert found.stdout.strip() == tempfile.gettempdir()
        seen.extend(path.name for path in temporary.rglob("vllm_dist_*"))
        raise SystemExit(3)

    monkeypatch.setattr(launch.vllm_cli, "main", serve)
    monkeypatch.setattr(launch, "_text_config", lambda model: None)
    for name in ("VLLM_PLUGINS", "TOOLGATE_ADAPTER", "OMP_NUM_THREADS", "TORCH_COMPILE_DISABLE"):
        monkeypatch.setenv(name, os.environ.get(name, ""))  # is restored
    with pytest.raises(SystemExit):
        launch.main(["model"])
    assert seen == ["vllm_dist_1"]
    assert not [*temporary.iterdir()]
    assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(temporary)
    compiled = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    assert compiled.parent == temporary  # the cache of compiled functions outlives the run


def test_files_of_a_killed_run_are_removed_at_the_next_start(temporary: Path) -> None:
    run = subprocess.run([sys.executable, "-c", LEFT], check=False)
    assert run.returncode == -9
    assert [*temporary.rglob("vllm_dist_*")]
    with own_directory():
        assert not [*temporary.rglob("vllm_dist_*")]


def test_a_path_too_long_for_sockets_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert len(str(tmp_path)) + 24 > MAX_LENGTH
    with own_directory():
        assert tempfile.gettempdir() == str(tmp_path)
